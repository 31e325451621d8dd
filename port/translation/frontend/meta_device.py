"""Modules on the meta device: tensors have shapes but no values, so a model of any size fits into memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from port.errors import UsageError


def is_on_meta(module: Any) -> bool:
    """Whether a module's tensors are on the meta device.

    Raises:
        UsageError: only some are; names one of each.
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
    """Move example inputs to the meta device."""
    import torch
    from torch.utils import _pytree as pytree

    moved: tuple[Any, dict[str, Any]] = pytree.tree_map(
        lambda leaf: leaf.to("meta") if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
    )
    return moved


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Construct a model without memory for its parameters, within the context; computed buffers keep their values.

    Layers allocate parameters with ``torch.empty`` and then draw them; on the meta device neither takes memory. Tables,
    such as sines and cosines, are computed as usual.
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
    """Wrap a constructor so that it runs within `parameters_on_meta`."""

    def made() -> Any:
        with parameters_on_meta():
            return construct()

    return made


def built_on_meta(construct: Callable[[], Any]) -> Any:
    """Construct a model with its computed tables available, then move all of it to the meta device."""
    return constructed_on_meta(construct)().to("meta")


def check_recoverable(module: Any, unknown: Collection[str]) -> None:
    """Check that everything a module holds is in a checkpoint or can be computed.

    Args:
        module: a module on the meta device.
        unknown: names of the parameters and buffers whose initial values are unknown.

    Raises:
        UsageError: one of them is a buffer that no state dict holds.
    """
    state = module.state_dict()
    lost = [name for name, _ in module.named_buffers() if name not in state and name in unknown]
    if lost:
        raise UsageError(
            f"{type(module).__qualname__} is on the meta device, and no checkpoint holds its buffer {lost[0]} "
            "(persistent=False): pass construct=lambda: …, which constructs the model, so that it can be computed"
        )


WITHOUT_WEIGHTS = (
    "the module is on the meta device, and has no weights to run with. Source and mapping are written: fill the Flax "
    "module by port.load(model, CHECKPOINT, rename=MAPPING), and compare both at a size that fits (port check)"
)
"""The reason that the proof of a module on the meta device gives for not running."""
