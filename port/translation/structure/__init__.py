"""From a lowered graph to a program: call tree, bodies, scopes, classes, constructors."""
