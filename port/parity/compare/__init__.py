"""Compare two runs: tensors by the judge, layer by layer, mode by mode."""
