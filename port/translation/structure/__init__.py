"""From a run to a program: call tree, bodies, scopes, classes, constructors."""
