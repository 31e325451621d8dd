"""A layer, a loss, operators, an optimizer and a schedule of one's own; ``in_jax`` has the twins."""
