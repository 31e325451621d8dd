"""The translator's intermediate representation: graphs as immutable data, and the syntax nodes to emit."""
