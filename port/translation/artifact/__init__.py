"""What lies beside the source: weights, mapping, calling convention, metadata."""
