"""Models of ``transformers``, named by a folder or a class: built from a configuration, at any size."""
