"""Find the logical names of a model's axes: trace it, follow each axis, and name it by what is done along it."""
