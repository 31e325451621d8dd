"""Modules on the meta device: they have shapes and no numbers, so that a model of any size fits into any memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from port.errors import UsageError


def is_on_meta(module: Any) -> bool:
    """Whether a module's tensors are on the meta device.

    Raises:
        UsageError: some are and others are not; names one of each.
    """
    tensors = [*module.named_parameters(), *module.named_buffers()]
    inside = [name for name, tensor in tensors if tensor.is_meta]
    outside = [name for name, tensor in tensors if not tensor.is_meta]
    if inside and outside:
        raise UsageError(
            f"{type(module).__qualname__} is in part on the meta device: {inside[0]} is there, {outside[0]} is not. "
            "Build all of it there (with torch.device('meta'), or .to('meta')), or give it its weights"
        )
    return bool(inside)


def on_meta(args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Example inputs without their numbers."""
    import torch
    from torch.utils import _pytree as pytree

    moved: tuple[Any, dict[str, Any]] = pytree.tree_map(
        lambda leaf: leaf.to("meta") if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
    )
    return moved


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Within it, a model is constructed without memory for its parameters; what it computes has its numbers.

    Layers make their parameters by ``torch.empty`` and then draw them: on the meta device neither takes memory. Tables,
    as those of sines and cosines, are computed as always.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    class Empty(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if function is torch.empty and kwargs.get("device") is None:
                kwargs["device"] = "meta"
            return function(*args, **kwargs)

    with Empty():
        yield


def constructed_on_meta(construct: Callable[[], Any]) -> Callable[[], Any]:
    """The same, within `parameters_on_meta`."""

    def made() -> Any:
        with parameters_on_meta():
            return construct()

    return made


def on_meta_alone(construct: Callable[[], Any]) -> Any:
    """A model without any numbers, of which constructing has computed what it needs."""
    return constructed_on_meta(construct)().to("meta")


def check_all_found(module: Any, unknown: Collection[str]) -> None:
    """See that whatever a module holds is in a checkpoint or can be computed.

    Args:
        module: on the meta device.
        unknown: names of the parameters and buffers of which nobody knows how they start.

    Raises:
        UsageError: a buffer that no state dict holds is among them.
    """
    state = module.state_dict()
    lost = [name for name, _ in module.named_buffers() if name not in state and name in unknown]
    if lost:
        raise UsageError(
            f"{type(module).__qualname__} is on the meta device, and no checkpoint holds its buffer {lost[0]} "
            "(persistent=False): say how the model is constructed, construct=lambda: …, so that it can be computed"
        )


WITHOUT_WEIGHTS = (
    "the module is on the meta device, and has no weights to run with. Source and mapping are written: fill the Flax "
    "module by port.load(model, CHECKPOINT, rename=MAPPING), and compare both at a size that fits (port check)"
)
"""What the proof says of such a module."""
