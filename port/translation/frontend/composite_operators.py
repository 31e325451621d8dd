"""Composite operators of torch: which of them stay in a functional graph, and which are always decomposed."""

from __future__ import annotations

from typing import Any

import torch
from torch._export import utils

# fmt: off
DECOMPOSED = frozenset([
    "adjoint", "broadcast_to", "chunk", "contiguous", "dsplit", "dropout", "expand_as", "flatten", "hsplit",
    "mH", "mT", "matrix_H", "moveaxis", "movedim", "narrow", "numpy_T", "ravel", "reshape", "reshape_as",
    "split", "swapaxes", "swapdims", "tensor_split", "to", "unflatten", "unsafe_chunk", "view_as", "vsplit",
])
# fmt: on
"""Composite operators that are always decomposed, into operators that are not composite themselves."""

_TRACED = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
_STAYS = "_is_preservable_cia_op"
"""Private function of torch that decides whether a composite operator may stay."""


def knows_which_stay() -> bool:
    """Whether this version of torch can tell which composite operators may stay."""
    return hasattr(utils, _STAYS)


def stays(operator: Any) -> bool:
    """Whether a composite operator may stay in a functional graph."""
    return bool(getattr(utils, _STAYS)(operator))


def is_composite(operator: Any) -> bool:
    """Whether an operator is composed of others, for every device and for gradients."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"))


def is_taken_apart(operator: Any) -> bool:
    """Whether tracing decomposes an operator that is not composite on every device, such as hardshrink."""
    return not is_composite(operator) and any(key in operator.py_kernels for key in _TRACED)
