"""Passes on captured graphs, before lowering: each takes a graph and returns a graph."""
