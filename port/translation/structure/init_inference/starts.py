"""How the tensors of a model are initialised, as arguments for the written constructors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from port.errors import PortError, UsageError
from port.translation.frontend.construction.draws import OpenDraw
from port.translation.frontend.meta_device import constructed_on_meta, is_on_meta
from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted
from port.translation.ir.layout import Layout
from port.translation.structure.init_inference.constructions import Start, starts_of, unsaid
from port.translation.structure.init_inference.formulas import formula
from port.translation.structure.init_inference.layers import initializer_argument, layer_starts
from port.translation.structure.init_inference.stories import Fixed
from port.translation.structure.init_inference.writing import Writer


class ConstructFails(UsageError):
    """``construct`` raises, for example because it reads a file that no longer exists."""


@dataclass(frozen=True)
class Seen:
    """How the parameters and buffers of a model are initialised.

    Attributes:
        starts: name → initialisation.
        why: why the others are not known.
    """

    starts: dict[str, Start] = field(default_factory=dict)
    why: str = "the translation was not told how the model is constructed (construct=…)"


class Initial:
    """Writes the initialisation of each parameter and buffer.

    Args:
        seen: how they are initialised.
        layers: path → torch layer, for the layers that are kept whole.
        folded: the paths of linear layers whose inputs are reordered.
        draws: names of parameters → their draw, where one of its numbers knows its origin.

    Attributes:
        tables: name → array, for the arrays that are stored whole.
        unsaid: names of parameters and buffers without a known initializer → why.
        copies: name → the tensor that it starts as a copy of; in the written module each draws its own numbers.
    """

    def __init__(
        self,
        seen: Seen | None = None,
        layers: dict[str, Any] | None = None,
        folded: set[str] | None = None,
        draws: Mapping[str, OpenDraw] | None = None,
    ) -> None:
        self._seen = seen or Seen()
        self._writer = Writer(draws or {})
        self._layers: dict[str, dict[str, tuple[str, Start]]] = {}
        for path, layer in (layers or {}).items():
            own = {
                name: start
                for name, tensor in (*layer.named_parameters(), *layer.named_buffers())
                if (start := self._seen.starts.get(f"{path}.{name}")) and start.labels.shape == tuple(tensor.shape)
            }
            self._layers[path] = found = layer_starts(layer, own) if own else {}
            for name, (torchs, start) in found.items():
                if path in (folded or ()) and not _is_everywhere_alike(start):
                    why = "the written layer takes its inputs in another order"
                    found[name] = torchs, unsaid(why, start.labels.shape)
                self._writer.vote(found[name][1])

    @property
    def tables(self) -> dict[str, np.ndarray]:
        return self._writer.tables

    @property
    def unsaid(self) -> dict[str, str]:
        return self._writer.unsaid

    @property
    def copies(self) -> dict[str, str]:
        starts = self._seen.starts.items()
        return {
            name: start.same[0] for name, start in starts if start.same and not self._twin_copies(name, start.same[0])
        }

    def _twin_copies(self, name: str, original: str) -> bool:
        """Whether one layer holds both tensors, and its twin copies them as the layer does (a transformer's stack)."""
        return any(
            not redrawn and name.startswith(f"{path}.") and original.startswith(f"{path}.")
            for path, redrawn in self._layers.items()
        )

    def of_layer(self, path: str, shown: str, layer: Any) -> tuple[dict[str, syntax.Expr], dict[str, syntax.Expr]]:
        """The initializers that a layer's twin receives instead of the pair's.

        Args:
            path: the layer's path.
            shown: how the source refers to it: a class and an attribute.
            layer: the torch layer.

        Returns:
            The twin's arguments → initializers; and variables without such an argument → initializers.
        """
        arguments, redrawn = {}, {}
        for name, (torchs, start) in self._layers.get(path, {}).items():
            initializer = self._writer.initializer(start, f"{path}.{torchs}", f"{shown}.{name}")
            argument = initializer_argument(layer, name)
            if argument is None:
                redrawn[name] = initializer
            else:
                arguments[argument] = initializer
        return arguments, redrawn

    def value(
        self,
        name: str,
        shown: str,
        tensor: Any,
        layout: Layout,
        sizes: tuple[int, ...] | None = None,
        table: syntax.Expr | None = None,
    ) -> syntax.Expr:
        """The initial value of a module's own parameter or buffer.

        Args:
            name: its name in the original.
            shown: how the source refers to it: a class and an attribute.
            tensor: torch's tensor.
            layout: its layout in the written module.
            sizes: torch's lengths, which may know their origin.
            table: the expression with which the constructor computes it, if known.
        """
        if table is not None and layout.order == tuple(range(tensor.dim())):
            return _of_dtype(table, _dtype(tensor))
        shape = tuple((sizes or tensor.shape)[dim] for dim in layout.order)
        dtype = _dtype(tensor)
        start = self._seen.starts.get(name)
        if start is None or start.labels.shape != tuple(tensor.shape):
            why = self._seen.why if start is None else "each construction has another shape"
            start = unsaid(why, tuple(tensor.shape))
        start = start.transposed(layout.order)
        if start.is_fixed:
            written = formula(start.values, dtype, shape)
            if written is not None:
                return written
            if start.only is not None or self._writer.in_parts(start, name) is None:
                kept = self._writer.table(start.values, name)
                return code("TABLES.array(name, shape, dtype)", name=kept, shape=shape, dtype=dtype)
        drawn = self._writer.initializer(start, name, shown)
        return code("draw(rngs.params(), shape, dtype)", draw=drawn, shape=shape, dtype=dtype)


def watched(module: Any, construct: Callable[[], Any] | None) -> Seen:
    """Find how a model's parameters and buffers are initialised.

    Args:
        module: an instance. Its numbers are not read: they may be a checkpoint's.
        construct: builds an instance; without it, a class whose constructor takes no arguments is constructed.

    Raises:
        ConstructFails: ``construct`` raises.
    """
    if construct is not None:
        try:
            return Seen(starts_of(_as(module, construct)))
        except PortError:
            raise
        except Exception as error:
            raise ConstructFails(f"construct fails: {type(error).__name__}: {error}") from error
    if not _takes_nothing(type(module)):
        return Seen()
    try:
        return Seen(starts_of(_as(module, type(module))))
    except Exception as error:
        return Seen(why=f"{type(module).__name__}() fails ({type(error).__name__}: {error}): give construct=…")


def _as(module: Any, construct: Callable[[], Any]) -> Callable[[], Any]:
    """Make a construction use no more memory than the module does."""
    return constructed_on_meta(construct) if is_on_meta(module) else construct


def _takes_nothing(cls: type) -> bool:
    """Whether a user-defined class can be constructed without arguments."""
    try:
        return not cls.__module__.startswith("torch.nn.") and not inspect.signature(cls).parameters
    except (TypeError, ValueError):
        return False


def _is_everywhere_alike(start: Start) -> bool:
    return start.only is not None and not isinstance(start.only, Fixed)


def _of_dtype(table: syntax.Expr, dtype: syntax.Expr) -> syntax.Expr:
    match table:
        case syntax.Call(function, ends, ()) if dotted(function) == "jnp.arange":
            return syntax.Call(function, ends, (syntax.Keyword("dtype", dtype),))
        case syntax.Call(function, (number,), ()) if dotted(function) == "jnp.array":
            return syntax.Call(function, (number, dtype))
    return code("table.astype(dtype)", table=table, dtype=dtype)


def _dtype(tensor: Any) -> syntax.Expr:
    """The dtype of a tensor: ``param_dtype`` for floats, as after ``module.to(dtype)``, except float64 buffers."""
    import torch

    if tensor.is_complex():
        return code("jnp.complex64")
    is_wide = tensor.dtype == torch.float64 and not isinstance(tensor, torch.nn.Parameter)
    if tensor.is_floating_point() and not is_wide and tensor.dtype != torch.float16:
        return syntax.Name("param_dtype")
    return code(f"jnp.{str(tensor.dtype).removeprefix('torch.').replace('bool', 'bool_')}")
