"""Explain the differences: rounding, hints, remarks, and causes."""
