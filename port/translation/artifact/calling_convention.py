"""The calling convention: convert arguments and results between torch's tensors and JAX's arrays."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from port.errors import UsageError
from port.translation.ir import syntax
from port.translation.ir.layout import Layout, torchs
from port.weights.torch_arrays import as_numpy, as_torch


@dataclass(frozen=True)
class Boundary:
    """The arguments and results of the root.

    Attributes:
        signature: the signature of the original's ``forward``.
        parameters: the parameters of the written ``__call__``, with their stars.
        inputs: layouts of the input tensors, in the order of the flattened arguments.
        outputs: mode (True for training) → the tree of results: a `Layout` for an array, the value for anything else.
        options: the parameters that have the original's default.
        layouts: parameter of ``forward`` → layouts of the tensors in its argument.
        static: parameter of ``forward`` → its constant, for arguments without arrays.
    """

    signature: inspect.Signature
    parameters: tuple[str, ...]
    inputs: tuple[Layout, ...]
    outputs: dict[bool, Any]
    options: tuple[str, ...] = ()
    layouts: Mapping[str, tuple[Layout, ...]] = field(default_factory=dict)
    static: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needed(self) -> tuple[str, ...]:
        """The parameters that a call like the example has to pass: all except options at their defaults."""
        defaults = {name: self.signature.parameters[name].default for name in self.options}
        has_default = {name for name in defaults if _is_same(self.static.get(name, ...), defaults[name])}
        return tuple(name for name in self.parameters if name not in has_default)

    def takes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call of the original has the ranks and constants of the example call."""
        import torch
        from torch.utils import _pytree as pytree

        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            return False
        bound.apply_defaults()
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if [tensor.ndim for tensor in tensors] != [layout.rank for layout in self.inputs]:
            return False
        return all(_is_same(bound.arguments.get(name), value) for name, value in self.static.items())

    def to_flax(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Convert a call to positional arguments of the Flax module; for ``**`` the last one is a dict, for `call`.

        Raises:
            UsageError: the arguments' tensors differ in number or rank from the example's.
        """
        args = tuple(args) if isinstance(args, tuple | list) else (args,)
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        taken = {name.lstrip("*") for name in self.parameters}
        for name in bound.arguments.keys() - taken:
            self._converted(name, bound.arguments[name])  # unread, but checked
        arguments: list[Any] = []
        for name in self.parameters:
            own = name.lstrip("*")
            value = self._converted(own, bound.arguments[own])
            arguments += value if name.startswith("*") and not name.startswith("**") else [value]
        # Trailing options at their defaults are omitted.
        for name in reversed(self.parameters):
            if name not in self.options or not _is_same(arguments[-1], self.signature.parameters[name].default):
                break
            arguments.pop()
        return tuple(arguments)

    def _converted(self, name: str, value: Any) -> Any:
        """Convert an argument's tensors to JAX arrays."""
        import torch
        from torch.utils import _pytree as pytree

        tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        known = self.layouts.get(name, ())
        if name in self.options and not (tensors and known):
            # No example call passed a tensor here, or this call passes none: the source raises an error if needed.
            known = tuple(torchs(tensor.ndim) for tensor in tensors)
        ranks = [tensor.ndim for tensor in tensors]
        if ranks != [layout.rank for layout in known]:
            raise UsageError(
                f"the module was translated with {_tensors([layout.rank for layout in known])} as {name}, got "
                f"{_tensors(ranks)}"
            )
        layouts = iter(known)
        return pytree.tree_map(
            lambda leaf: to_jax(leaf, next(layouts)) if isinstance(leaf, torch.Tensor) else leaf, value
        )

    def call(self, module: Any, arguments: tuple[Any, ...]) -> Any:
        """Call the Flax module with the arguments from `to_flax`."""
        gathers = bool(self.parameters) and self.parameters[-1].startswith("**")
        return module(*arguments[:-1], **arguments[-1]) if gathers else module(*arguments)

    def to_torch(self, results: Any) -> Any:
        """Convert the Flax module's results to torch's; their tree shows the mode."""
        trees = [self.outputs[training] for training in (False, True)]
        return _to_torch(results, next((tree for tree in trees if _fits(results, tree)), trees[0]))

    def gives(self, results: Any) -> bool:
        """Whether results have the tree of one of the modes."""
        return any(_fits(results, tree) for tree in self.outputs.values())


def _tensors(ranks: list[int]) -> str:
    if not ranks:
        return "no tensor"
    return f"{'a tensor' if len(ranks) == 1 else f'{len(ranks)} tensors'} of {', '.join(map(str, ranks))} axes"


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arguments are the same constant; a tuple and a list of equal items are."""
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    return one is other or (type(one) is type(other) and isinstance(one, bool | int | float | str) and one == other)


def _fits(results: Any, outputs: Any) -> bool:
    match outputs:
        case Layout():
            return hasattr(results, "shape") and len(results.shape) == outputs.rank
        case dict():
            is_alike = isinstance(results, dict) and results.keys() == outputs.keys()
            return is_alike and all(_fits(results[name], outputs[name]) for name in outputs)
        case tuple() | list():
            is_alike = isinstance(results, tuple | list) and len(results) == len(outputs)
            return is_alike and all(map(_fits, results, outputs))
    return True


def to_jax(tensor: Any, layout: Layout) -> Any:
    """Convert a tensor to a JAX array in a layout."""
    import jax.numpy as jnp

    return jnp.array(np.transpose(as_numpy(tensor.detach().cpu()), layout.order))


def _to_torch(results: Any, outputs: Any) -> Any:
    match outputs:
        case Layout():
            array = np.asarray(results)
            return as_torch(np.transpose(array, [outputs.order.index(dim) for dim in range(outputs.rank)]).copy())
        case dict():
            return type(outputs)((name, _to_torch(results[name], layout)) for name, layout in outputs.items())
        case tuple() | list():
            items = [_to_torch(result, layout) for result, layout in zip(results, outputs, strict=True)]
            return type(outputs)(*items) if hasattr(outputs, "_fields") else type(outputs)(items)
        case _:
            return outputs


def outputs_of(results: Any, layout: Any) -> Any:
    """Return the tree of a call's results, with layouts in place of arrays."""
    match results:
        case syntax.Const():
            return results.value
        case syntax.Expr():
            return layout(results)
        case dict():
            made = ((key, outputs_of(item, layout)) for key, item in results.items())
            return dict(made) if type(results) is dict else type(results)(made)
        case tuple() if hasattr(results, "_fields"):
            return type(results)(*(outputs_of(item, layout) for item in results))
        case tuple() | list():
            return type(results)(outputs_of(item, layout) for item in results)
        case _:
            return results
