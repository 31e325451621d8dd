"""What cannot be right in a pair is refused when it is registered, in words; all of the project's own can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import port
from port.errors import UsageError
from port.pairs import LAYERS, Expression, LayerPair, OperatorPair, OptimizerPair, SchedulePair, registered
from port.pairs.ops import OPERATORS
from port.pairs.ops.axes import Along
from port.pairs.optimizers import OPTIMIZERS
from port.pairs.optimizers.momentum import SGD
from port.pairs.refusals import refuse_unsound
from port.pairs.schedules import SCHEDULES

SAYS = "torch.ops.my_lib.scaled(x, factor)"
OWN = OptimizerPair("my_pkg.Own", "own", {"lr": 0.1}, chain=lambda given: Expression("optax.sgd", (given["lr"],)))


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registered, "_pairs", [])
    yield
    assert registered._pairs == []


def test_the_projects_own_are_sound() -> None:
    operators = [pair for pair in OPERATORS if pair.aten]
    optimizers = [pair for pair in OPTIMIZERS if not pair.closure]
    for pair in (*LAYERS, *operators, *optimizers, *SCHEDULES):
        refuse_unsound(pair)
    for optimizer in optimizers:
        assert set(optimizer.takes) == set(optimizer.defaults)  # what torch takes is said of each
    assert len(operators) > 200


def of(jax: str, **more: Any) -> OperatorPair:
    return OperatorPair.of(SAYS, jax, **more)


WRONG: list[tuple[Any, str]] = [
    (LayerPair("Scale", "flax.nnx.Linear"), r"LayerPair of Scale: torch must be a public name .* got 'Scale'"),
    (LayerPair("my_pkg.Scale", 3), r"flax must be a name, as in .*, or the class itself; got 3"),  # type: ignore[arg-type]
    (LayerPair("my_pkg.Scale", "flax.nnx.Linear", ("weight",)), r"params must be a tuple of ParamPair"),  # type: ignore[arg-type]
    (LayerPair("my_pkg.Scale", "flax.nnx.Linear", arguments={}), r"arguments must be a function; got \{\}"),  # type: ignore[arg-type]
    (of("x *"), r"jax must be a Python expression; got 'x \*'"),
    (of("x * scale"), r"its jax reads scale, which is no argument of the call and is not imported"),
    (of("kernels.scaled(x, factor)"), r"its jax reads kernels, .* imports=\(\"import my_kernels\",\)"),
    (of("x * factor", only_if="f > 1"), r"its only_if reads f"),
    (of("x", imports=("my_kernels",)), r"imports must be import lines: expected one import.* got 'my_kernels'"),
    (of("x", imports=("import my_kernels as jnp",)), r"gives the name jnp, which means something else in the source"),
    (of("x", left_out={"scale": 1}), r"its left_out names scale, which is no argument of the call"),
    (of("x", axes=Along("dim")), r"its axes names dim, which is no argument of the call"),
    (of("x", notes=("none",)), r"its notes name none, but notes are ids of the table"),
    (replace(of("x"), aten="scaled"), r"aten must be a public name with its module"),
    (replace(OWN, torch=int), r"torch must be a public name with its module, .* got <class 'int'>"),
    (replace(OWN, name="adam"), r"my_pkg\.Own cannot be called 'adam': that is torch\.optim\.Adam"),
    (replace(OWN, defaults={"rate": 0.1}), r"defaults must be the options and their defaults, lr among them"),
    (replace(OWN, chain=lambda given: given["momentum"]), r"its chain fails with the defaults: KeyError: 'momentum'"),
    (
        replace(OWN, chain=lambda given: "optax.sgd"),
        r"chain must be a function that gives an Expression, ",
    ),
    (replace(OWN, takes={"beta": SGD.takes["lr"]}), r"its takes names beta, but its defaults lr"),
    (replace(OWN, scalars=frozenset({"mu"})), r"its scalars names mu, but its state step"),
    (replace(OWN, schedules_momentum="momentum"), r"schedules_momentum must be one of its defaults .* got .momentum"),
    (replace(OWN, counts=False, whole_count=True), r"counts=False says there is none"),
    (replace(OWN, rate_in_its_dtype=True), r"it has no weight_decay"),
    (replace(OWN, closure=True), r"closure=True is only for torch\.optim\.LBFGS"),
    (
        SchedulePair("my_pkg.Warm", lambda base: base),
        r"learning_rate must be a function of the scheduler, the ",
    ),
    (SchedulePair("my_pkg.Warm", 0.1), r"learning_rate must be a function; got 0\.1"),  # type: ignore[arg-type]
    (SchedulePair("my_pkg.Warm", lambda s, g, b: b, keys="warm_up"), r"keys must be a tuple of the names"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("pair", "told"), WRONG, ids=[told[:40] for _, told in WRONG])
def test_what_cannot_be_right_is_refused(pair: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        port.register(pair)


def test_one_class_may_be_paired_anew_and_its_name_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered, "_pairs", known := [])
    other = replace(OWN, defaults={"lr": 0.2})
    for pair in (OWN, other, OWN):
        port.register(pair)
    assert known == [other, OWN]
    with pytest.raises(UsageError, match=r"my_pkg\.Other cannot be called 'own': that is my_pkg\.Own"):
        port.register(replace(OWN, torch="my_pkg.Other"))
    known.clear()
    monkeypatch.undo()
