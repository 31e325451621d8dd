"""The JAX side."""
