"""What goes into a module and comes out of it: torch's tensors and JAX's arrays, each in its own layout."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from port.errors import UsageError
from port.translation.ir import syntax
from port.translation.ir.layout import Layout
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
        static: what parameters of ``forward`` hold that are given no arrays: constants by their names.
    """

    signature: inspect.Signature
    parameters: tuple[str, ...]
    inputs: tuple[Layout, ...]
    outputs: dict[bool, Any]
    options: tuple[str, ...] = ()
    static: Mapping[str, Any] = field(default_factory=dict)

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
        import torch
        from torch.utils import _pytree as pytree

        args = tuple(args) if isinstance(args, tuple | list) else (args,)
        layouts = iter(self.inputs)

        def carried(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            layout = next(layouts, None)
            if layout is None or layout.rank != leaf.ndim:
                raise UsageError(
                    f"the module was translated with {len(self.inputs)} tensors of "
                    f"{', '.join(str(known.rank) for known in self.inputs)} axes; got others"
                )
            return to_jax(leaf, layout)

        args, kwargs = pytree.tree_map(carried, (args, kwargs))
        if next(layouts, None) is not None:
            raise UsageError(f"the module was translated with {len(self.inputs)} tensors; got fewer")
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given: list[Any] = []
        for name in self.parameters:
            value = bound.arguments[name.lstrip("*")]
            given += value if name.startswith("*") and not name.startswith("**") else [value]
        # An option at the end that has its default is left to that.
        for name in reversed(self.parameters):
            if name not in self.options or not _is_same(given[-1], self.signature.parameters[name].default):
                break
            given.pop()
        return tuple(given)

    def call(self, module: Any, given: tuple[Any, ...]) -> Any:
        """What the Flax module gives for the arguments of `to_flax`."""
        gathers = bool(self.parameters) and self.parameters[-1].startswith("**")
        return module(*given[:-1], **given[-1]) if gathers else module(*given)

    def to_torch(self, results: Any) -> Any:
        """The Flax module's results as torch's; which mode they are of is seen by their tree."""
        trees = [self.outputs[training] for training in (False, True)]
        return _to_torch(results, next((tree for tree in trees if _fits(results, tree)), trees[0]))


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arguments are one constant."""
    return one is other or (type(one) is type(other) and isinstance(one, _CONSTANTS) and bool(one == other))


_CONSTANTS = (bool, int, float, str, tuple, list, dict)


def _fits(results: Any, outputs: Any) -> bool:
    match outputs:
        case Layout():
            return hasattr(results, "shape") and len(results.shape) == outputs.rank
        case dict():
            return isinstance(results, dict) and results.keys() == outputs.keys()
        case tuple() | list():
            return isinstance(results, tuple | list) and len(results) == len(outputs)
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
