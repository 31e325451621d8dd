"""From graph to graph, on torch's own terms."""
