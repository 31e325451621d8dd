"""A model on both sides, a fault planted in its Flax twin, and what `port.check` says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx

import port
from port.errors import WeightsMismatch
from port.pairs import registered as registered_pairs
from port.pairs import registry
from port.pairs.pair import is_class
from port.parity import CheckReport

Change = Callable[[Any], None]


@dataclass(frozen=True)
class Twin:
    """One model, written by hand on both sides.

    Attributes:
        name: the model's.
        torch: makes torch's.
        flax: makes Flax's; its options are where faults are planted.
        inputs: torch's.
        fold: of `port.load` and `port.check`.
        options: other options of `port.check`.
    """

    name: str
    torch: Callable[..., torch.nn.Module]
    flax: Callable[..., Any]
    inputs: Callable[[], Any]
    fold: dict[str, tuple[int, ...]] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def check(self, options: dict[str, Any], change: Change | None = None, fold: Any = ...) -> CheckReport:
        """The report of the two, Flax's with the same weights, then changed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            theirs = self.torch()
            moved(theirs)
        fold = self.fold if fold is ... else fold
        with registered([value for value in options.values() if isinstance(value, type)]):
            ours = self.flax(**options)
            self._fill(ours, theirs, fold)
            if change is not None:
                change(ours)
            return port.check(theirs, ours, self.inputs(), fold=fold, **self.options)

    def _fill(self, ours: nnx.Module, theirs: torch.nn.Module, fold: Any) -> None:
        """Torch's weights, where the fault is no parameter too few or too many; else those that both have."""
        try:
            port.load(ours, theirs, fold=fold)
        except WeightsMismatch:
            right = self.flax()
            port.load(right, theirs, fold=fold)
            there = dict(nnx.to_flat_state(nnx.state(right)))
            own = nnx.to_flat_state(nnx.state(ours))
            nnx.update(ours, nnx.from_flat_state([(path, there[path]) for path, _ in own if path in there]))


class LinenTwin(Twin):
    """One model, its Flax side in Linen; a change is made to its variables."""

    def check(self, options: dict[str, Any], change: Change | None = None, fold: Any = ...) -> CheckReport:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            theirs = self.torch()
            moved(theirs)
        fold, given = self.fold if fold is ... else fold, self.inputs()
        last = given.movedim(1, -1) if given.ndim == 4 else given
        with registered([value for value in options.values() if isinstance(value, type)]):
            ours = self.flax(**options)
            variables = port.to_flax(theirs, target=ours, inputs=jnp.asarray(last.numpy()), fold=fold)
            variables.pop("torch_only", None)
            if change is not None:
                change(variables)
            return port.check(theirs, (ours, variables), given, fold=fold, **self.options)


@dataclass(frozen=True)
class Fault:
    """One fault in one model.

    Attributes:
        kind: what was done, as it is counted.
        twin: the model.
        layer: the layer that is to be named, torch's path; "" for the model's own code after all of them.
        causes: kinds of causes that are right; the first is the expected one.
        options: of Flax's twin.
        change: of Flax's twin, once it has torch's weights.
        fold: in place of the twin's.
        all: whether all of ``causes`` are to be named: there are as many faults.
        also: the second layer that is to be named by a cause; "" where there is none.
    """

    kind: str
    twin: Twin
    layer: str
    causes: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    change: Change | None = None
    fold: Any = ...
    all: bool = False
    also: str = ""

    def __str__(self) -> str:
        return f"{self.twin.name}: {self.kind}"


@dataclass(frozen=True)
class Outcome:
    """What was said of a fault.

    Attributes:
        fault: which.
        layer: the layer that was named; None where the two were said to agree.
        named: whether the cause was.
        false: the kinds of causes that were named and are none.
        report: the whole.
    """

    fault: Fault
    layer: str | None
    named: bool
    false: tuple[str, ...]
    report: CheckReport

    @property
    def is_layer_named(self) -> bool:
        return self.layer == self.fault.layer


def outcome(fault: Fault) -> Outcome:
    """Plant a fault, check, and read the report."""
    report = fault.twin.check(fault.options, fault.change, fault.fold)
    kinds = [cause.kind for cause in report.causes]
    layer = report.first.layer if report.first is not None else None
    if layer is None and report.causes:  # statistics alone: no layer's output differs
        layer = report.causes[0].layer
    false = tuple(kind for kind in dict.fromkeys(kinds) if kind not in fault.causes)
    named = (all if fault.all else any)(kind in kinds for kind in fault.causes)
    named &= not fault.also or fault.also in [cause.layer for cause in report.causes]
    return Outcome(fault, layer, named, false, report)


@contextmanager
def registered(layers: list[type]) -> Iterator[None]:
    """Have the pairs of Flax's layers speak of classes derived from them, as a person registers layers of their own."""
    before, derived = list(registered_pairs._pairs), registry.DERIVED
    for layer in layers:
        bases = [f"port.nn.{base.__name__}" for base in layer.__mro__[1:]]
        registry.DERIVED = (*registry.DERIVED, *(replace(d, flax=layer) for d in derived if d.flax in bases))
        for pair in registry.all_pairs():
            if any(is_class(base, pair.flax) for base in layer.__mro__[1:]):
                registry.register(replace(pair, flax=layer))
    try:
        yield
    finally:
        registered_pairs._pairs[:] = before
        registry.DERIVED = derived


def moved(module: torch.nn.Module) -> None:
    """Have no parameter and no statistic at a value that a new layer has."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point():
                buffer.add_(torch.rand(buffer.shape) + (0.5 if name.endswith("var") else 0.0))


def drawn(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def at(path: str, of: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Change one tensor, by its path."""

    def change(module: Any) -> None:
        *above, name = path.split(".")
        for part in above:
            module = module[int(part)] if part.isdecimal() else getattr(module, part)
        tensor = getattr(module, name)
        tensor[...] = jnp.asarray(of(np.asarray(tensor[...])), tensor.dtype)

    return change


def swapped(one: str, other: str) -> Change:
    """Exchange two tensors of one shape."""

    def change(module: Any) -> None:
        held: dict[str, np.ndarray] = {}
        for path in (one, other):
            at(path, lambda values, path=path: held.setdefault(path, values.copy()))(module)
        at(one, lambda _: held[other])(module)
        at(other, lambda _: held[one])(module)

    return change


def fresh(path: str) -> Change:
    """Other values than torch's, as a layer that was never loaded has."""
    return at(path, fresh_values)


def beneath(path: str, of: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Change one variable of Linen's, by its path."""

    def change(variables: Any) -> None:
        *above, name = path.split(".")
        for part in above:
            variables = variables[part]
        variables[name] = of(variables[name])

    return change


def fresh_values(values: np.ndarray) -> np.ndarray:
    """Other values than torch's, as a layer that was never loaded has."""
    return (np.random.default_rng(11).normal(size=values.shape) / 3).astype(values.dtype)


def rounded(bits: int) -> Callable[[Any], Any]:
    """To so many bits of mantissa, as TF32 (10) rounds the factors of a product."""
    from jax import lax

    return lambda x: lax.reduce_precision(x, exponent_bits=8, mantissa_bits=bits)


def through(dtype: Any) -> Callable[[Any], Any]:
    """To a narrower dtype and back."""
    return lambda x: x.astype(dtype).astype(x.dtype)
