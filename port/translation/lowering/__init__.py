"""From ATen operators to JAX expressions, each array in a layout of its own."""
