"""The graph of a run as immutable data, and the expressions that are emitted."""
