"""What goes into a module and comes out of it: torch's tensors and JAX's arrays, each in its own layout."""

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
        signature: of the original's ``forward``.
        parameters: those that the written ``__call__`` takes, with their stars.
        inputs: layouts of the tensors given, in the order of the flattened arguments.
        outputs: by whether it is of training, the tree of results: a `Layout` for an array, its value for what is
            none.
        options: those of the parameters that have the original's default.
        layouts: those of the tensors that each parameter of ``forward`` is given.
        static: what parameters of ``forward`` hold that are given no arrays: constants by their names.
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
        """The parameters that a call like the example has to give: all but options that have their default there."""
        defaults = {name: self.signature.parameters[name].default for name in self.options}
        has_default = {name for name in defaults if _is_same(self.static.get(name, ...), defaults[name])}
        return tuple(name for name in self.parameters if name not in has_default)

    def takes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call of the original's is like the one that this was made with."""
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
        """The positional arguments of the Flax module; what ``**`` gathers is a dict behind them, for `call`.

        Raises:
            UsageError: other arguments than the translation was made with.
        """
        args = tuple(args) if isinstance(args, tuple | list) else (args,)
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        taken = {name.lstrip("*") for name in self.parameters}
        for name in bound.arguments.keys() - taken:
            self._carried(name, bound.arguments[name])  # nothing reads it; it is checked all the same
        given: list[Any] = []
        for name in self.parameters:
            own = name.lstrip("*")
            value = self._carried(own, bound.arguments[own])
            given += value if name.startswith("*") and not name.startswith("**") else [value]
        # An option at the end that has its default is left to that.
        for name in reversed(self.parameters):
            if name not in self.options or not _is_same(given[-1], self.signature.parameters[name].default):
                break
            given.pop()
        return tuple(given)

    def _carried(self, name: str, value: Any) -> Any:
        """An argument with JAX arrays for its tensors."""
        import torch
        from torch.utils import _pytree as pytree

        tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        known = self.layouts.get(name, ())
        if name in self.options and not (tensors and known):
            # No example call gave a tensor here, or this call gives none: the written source raises where it cannot.
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

    def call(self, module: Any, given: tuple[Any, ...]) -> Any:
        """What the Flax module gives for the arguments of `to_flax`."""
        gathers = bool(self.parameters) and self.parameters[-1].startswith("**")
        return module(*given[:-1], **given[-1]) if gathers else module(*given)

    def to_torch(self, results: Any) -> Any:
        """The Flax module's results as torch's; which mode they are of is seen by their tree."""
        trees = [self.outputs[training] for training in (False, True)]
        return _to_torch(results, next((tree for tree in trees if _fits(results, tree)), trees[0]))

    def gives(self, results: Any) -> bool:
        """Whether the Flax module's results are of a tree that it gives in one of the modes."""
        return any(_fits(results, tree) for tree in self.outputs.values())


def _tensors(ranks: list[int]) -> str:
    if not ranks:
        return "no tensor"
    return f"{'a tensor' if len(ranks) == 1 else f'{len(ranks)} tensors'} of {', '.join(map(str, ranks))} axes"


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arguments are one constant; a tuple and a list of the same are."""
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
    """A tensor as a JAX array in a layout."""
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
    """The tree of a call's results with the arrays' layouts in their places."""
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
