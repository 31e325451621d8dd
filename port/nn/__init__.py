"""Flax modules with PyTorch's semantics, for the few that Flax lacks or does otherwise."""

from port.nn.initializers import torch_bias, torch_kernel
from port.nn.norm import BatchNorm

__all__ = ["BatchNorm", "torch_bias", "torch_kernel"]
