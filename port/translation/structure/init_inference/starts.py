"""How everything that a model holds starts: what its constructors are given in the written source."""

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
    """What makes a model anew fails, as where it reads a file that is gone."""


@dataclass(frozen=True)
class Seen:
    """How the parameters and buffers of a model start.

    Attributes:
        starts: by their names.
        why: why others are not known.
    """

    starts: dict[str, Start] = field(default_factory=dict)
    why: str = "the translation was not told how the model is constructed (construct=…)"


class Initial:
    """What is written for the start of each parameter and buffer.

    Args:
        seen: how they start.
        layers: paths of the layers kept whole → the torch layer.
        folded: paths of the linear layers whose inputs are put in another order.
        draws: names of parameters → how they are drawn, where a number of that knows its origin.

    Attributes:
        tables: names → the arrays that are kept whole.
        unsaid: names of parameters and buffers that no initializer is known for → why.
        copies: names of those that start as copies → of which; each draws its own numbers in the written module.
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
        return {name: start.same[0] for name, start in self._seen.starts.items() if start.same}

    def of_layer(self, path: str, shown: str, layer: Any) -> tuple[dict[str, syntax.Expr], dict[str, syntax.Expr]]:
        """What a layer's twin is given in the place of the pair's initializers.

        Args:
            path: of the layer.
            shown: what the source calls it: a class and an attribute.
            layer: torch's.

        Returns:
            arguments of the twin's → initializers; and variables that no argument speaks of → initializers.
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
        """The array that a module's own parameter or buffer starts with.

        Args:
            name: the original's.
            shown: what the source calls it: a class and an attribute.
            tensor: torch's.
            layout: the one that the written module has it in.
            sizes: torch's lengths, which may know where they come from.
            table: how its constructor works it out, if that is known.
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
    """Look at how a model's parameters and buffers start.

    Args:
        module: one of them. Its numbers are not looked at: they may be a checkpoint's.
        construct: makes one. Where nobody says how, a class is constructed whose constructor takes no arguments.

    Raises:
        ConstructFails: ``construct`` does.
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
    """A construction that takes no more memory than the module has."""
    return constructed_on_meta(construct) if is_on_meta(module) else construct


def _takes_nothing(cls: type) -> bool:
    """Whether there is one way to construct a class of one's own."""
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
    return code("table.astype(dtype)", table=table, dtype=dtype)


def _dtype(tensor: Any) -> syntax.Expr:
    """What floats has the parameters' dtype, as behind ``module.to(dtype)``; but for a buffer of float64."""
    import torch

    if tensor.is_complex():
        return code("jnp.complex64")
    is_wide = tensor.dtype == torch.float64 and not isinstance(tensor, torch.nn.Parameter)
    if tensor.is_floating_point() and not is_wide and tensor.dtype != torch.float16:
        return syntax.Name("param_dtype")
    return code(f"jnp.{str(tensor.dtype).removeprefix('torch.').replace('bool', 'bool_')}")
