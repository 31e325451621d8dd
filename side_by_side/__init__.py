"""Paired PyTorch and JAX implementations: the same files, the same definitions in the same order."""
