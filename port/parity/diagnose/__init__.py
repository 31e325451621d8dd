"""What the differences mean: rounding, hints, remarks, and the causes."""
