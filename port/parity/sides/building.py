"""Build the Flax side from the user's module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from port.errors import UsageError, described
from port.parity.sides.flax_side import FlaxSide
from port.parity.sides.inputs import Inputs
from port.weights.sources import is_torch

Keywords = tuple[Mapping[str, Any], Mapping[str, Any]]


def check_models(torch_module: Any, flax_module: Any) -> None:
    """Refuse a first model that is not a torch module, and swapped models.

    Raises:
        UsageError: names what was passed.
    """
    if is_torch(torch_module):
        return
    if is_torch(flax_module):
        raise UsageError(
            "the two models are swapped: port.check(torch_module, flax_module, inputs); got "
            f"{described(torch_module)} first, and {described(flax_module)}, a torch module, second"
        )
    raise UsageError(f"expected a torch.nn.Module first, got {described(torch_module)}")


def flax_side(module: Any, precision: str, inputs: Inputs, keywords: Keywords | None) -> FlaxSide:
    """Return the side of an nnx module, or of a Linen module with its variables, as a copy.

    Args:
        module: an nnx module, or (Linen module, variables).
        precision: name of the dtype that the copy is cast to.
        inputs: the inputs, in Flax's layout.
        keywords: keywords of the model's call in evaluation and in training.

    Raises:
        UsageError: any other object, or a Linen module without variables.
    """
    from flax import linen, nnx

    if isinstance(module, nnx.Module):
        from port.parity.sides.nnx_side import NnxSide

        return NnxSide(module, precision, keywords)
    if isinstance(module, linen.Module):
        raise UsageError("a Linen module holds no weights: pass (module, variables)")
    if isinstance(module, tuple) and len(module) == 2 and isinstance(module[0], linen.Module):
        from port.parity.sides.linen_side import LinenSide

        return LinenSide(*module, precision, inputs, keywords)
    raise UsageError(f"expected a flax.nnx.Module or (Linen module, variables), got {described(module)}")
