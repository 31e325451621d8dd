"""Models of ``transformers`` by their folder or class: built from their configuration, with inputs, small and large."""
