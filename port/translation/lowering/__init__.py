"""Lower ATen operators to JAX expressions; each array has its own layout."""
