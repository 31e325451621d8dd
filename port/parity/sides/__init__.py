"""One side of a comparison, torch's or Flax's: its copy, its inputs, and what a run of it gives."""
