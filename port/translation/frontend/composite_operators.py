"""torch's composite operators: which of them stay in a functional graph, and which are always taken apart."""

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
"""Composite operators that are always decomposed, and whose parts are no composite operators that could stay."""

_TRACED = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
_STAYS = "_is_preservable_cia_op"
"""torch's function that says whether one may stay; private to torch."""


def knows_which_stay() -> bool:
    """Whether this torch says of a composite operator whether it may stay."""
    return hasattr(utils, _STAYS)


def stays(operator: Any) -> bool:
    """Whether a composite operator may stay in a functional graph."""
    return bool(getattr(utils, _STAYS)(operator))


def is_composite(operator: Any) -> bool:
    """Whether an operator is made of others, for every device and for gradients."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"))


def is_taken_apart(operator: Any) -> bool:
    """Whether an operator that is no composite one for every device is one in what torch traces, as hardshrink is."""
    return not is_composite(operator) and any(key in operator.py_kernels for key in _TRACED)
