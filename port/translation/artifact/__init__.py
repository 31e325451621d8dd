"""The files beside a generated source: weights, mapping, calling convention, metadata."""
