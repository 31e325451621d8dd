"""Write the update of several optimizers in turn as source: one pure step, with one state for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from string import Template

from port.scripts.writing.step_source import optimizer_lines
from port.scripts.writing.turns.order import Turn
from port.scripts.writing.turns.torch_source import TurnSource

MODULE = Template('''\
"""One update of $script in JAX: $names, each in turn.

    turns = load()                                          # with the original's initial weights
    graphdef, state = create(turns)
    $call

The computation before a step is in $files; the same in PyTorch, up to the losses, in torch_loss.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
$imports

$turn_imports

__all__ = [$exported]


class State(NamedTuple):
    """What an update changes: parameters, running statistics and random streams, by model; the optimizers' states."""

    params: Any
    rest: Any
    opt_state: dict[str, Any]


class Models(nnx.Module):
    """Each model once, by its name in the original."""

    def __init__(self, turns: Sequence[Any]) -> None:
        $turns = turns
$models

$makers
def load(**options: Any) -> tuple[$classes]:
    """The modules of all turns, with the original's initial weights; ``options`` go to the constructors."""
    return $loads


def create(turns: Sequence[Any]) -> tuple[tuple[Any, ...], State]:
    """The structure of each turn, and the state before the first update."""
    for turn in turns:
        turn.train()
    _, params, rest = nnx.split(Models(turns), nnx.Param, ...)
    opt_state = {
$first
    }
    return tuple(nnx.graphdef(turn) for turn in turns), State(params, rest, opt_state)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def train_step(graphdefs: Any, state: State, $parameters) -> tuple[State, dict[str, jax.Array]]:
    """One update of each: the state after them, and the losses before each."""
    params, rest, opt_state = state.params, state.rest, dict(state.opt_state)

$body
    return State(params, rest, opt_state), {$losses}


def only(state: Any, names: Sequence[str]) -> Any:
    """The part of a state that belongs to these models."""
    return nnx.State({name: state[name] for name in names if name in state})


def joined(state: Any, part: Any) -> Any:
    """A state with one part replaced."""
    return nnx.State({**state, **part})
''')
MAKER = Template('''
def make_$name() -> optax.GradientTransformation:
    """$optimizer

    As at $made.
    """
$body

''')
TURN = Template("""\
    def loss_$number(trained: Any) -> Any:
        model = nnx.merge(graphdefs[$place], only(joined(params, trained), $models), only(rest, $models), copy=True)
        $results = model($inputs)
        return $total, (nnx.state(model, nnx.Not(nnx.Param)), $results)

    trained = only(params, $trained)
    (_, ($moved, $results)), gradients = jax.value_and_grad(loss_$number, has_aux=True)(trained)
$kept""")
UPDATE = Template("""\
    trained = only(params, $roots)  # $where
    updates, opt_state["$name"] = make_$name().update($gradients, opt_state["$name"], trained)
    params = joined(params, optax.apply_updates(trained, updates))
""")


@dataclass(frozen=True)
class OptimizerFacts:
    """One of the optimizers.

    Attributes:
        name: the script's name for it.
        optax: the result of `port.optax_source`.
        words: its description, for a docstring.
        made: the original's line.
        roots: the models that it trains.
    """

    name: str
    optax: str
    words: str
    made: str
    roots: tuple[str, ...]


@dataclass(frozen=True)
class TurnsFacts:
    """The facts from which the source is written.

    Attributes:
        script: the original's name.
        turns: the turns, in order.
        sources: each turn's module.
        optimizers: the optimizers, in the order in which they step.
        holders: model → the turn from which it is taken, counted from 0.
        places: optimizer → the original's line that steps it.
        moved: a turn and an input that an earlier one returns → the transpose between the two, as source; missing if
            there is none.
    """

    script: str
    turns: Sequence[Turn]
    sources: Sequence[TurnSource]
    optimizers: Sequence[OptimizerFacts]
    holders: dict[str, int]
    places: dict[str, str]
    moved: dict[tuple[int, str], str] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs of train_step."""
        return tuple(dict.fromkeys(one for source in self.sources for one in source.inputs if one not in source.takes))

    @property
    def losses(self) -> tuple[tuple[str, ...], ...]:
        """For each turn, the names of its losses in what train_step returns."""
        found: list[tuple[str, ...]] = []
        taken: set[str] = set()
        for turn, source in zip(self.turns, self.sources, strict=True):
            names = []
            for name in source.losses:
                is_said = not (name[:1] == "x" and name[1:].isdigit())
                base = name if is_said else "loss"
                free = base if is_said and base not in taken else f"{base}_{'_'.join(turn.trains)}"
                while free in taken:
                    free += "_"
                taken.add(free)
                names.append(free)
            found.append(tuple(names))
        return tuple(found)


def turns_call(facts: TurnsFacts) -> str:
    """A call of train_step, as source."""
    return f"state, losses = train_step(graphdef, {', '.join(['state', *facts.inputs])})"


def turns_step_source(facts: TurnsFacts) -> str:
    """The unformatted source of train_step.py."""
    parts = {one.name: optimizer_lines(one.optax) for one in facts.optimizers}
    imports = [line for lines, _ in parts.values() for line in lines]
    makers = [
        MAKER.substitute(
            name=one.name,
            optimizer=one.words,
            made=one.made,
            body="\n".join(f"    {line}" if line else "" for line in parts[one.name][1]),
        )
        for one in facts.optimizers
    ]
    names = [f"turn{number + 1}" for number in range(len(facts.turns))]
    classes = [f"{name}.{source.name}" for name, source in zip(names, facts.sources, strict=True)]
    losses = [one for turn in facts.losses for one in turn]
    exported = sorted(
        ["Models", "State", "create", "load", "train_step", *(f"make_{o.name}" for o in facts.optimizers)]
    )
    roots = {one.name: one.roots for one in facts.optimizers}
    first = [f'"{name}": make_{name}().init(only(params, {_tuple(of)})),' for name, of in roots.items()]
    return MODULE.substitute(
        script=facts.script,
        names=_and([one.name for one in facts.optimizers]),
        call=turns_call(facts),
        files=_and([f"{name}.py" for name in names]),
        imports="\n".join(dict.fromkeys(sorted(imports, key=lambda line: (line.startswith("from port"), line)))),
        turn_imports="\n".join(f"import {name}" for name in names),
        exported=", ".join(f'"{one}"' for one in exported),
        turns=", ".join(names) + ("," if len(names) == 1 else ""),
        models="\n".join(f"        self.{name} = turn{place + 1}.{name}" for name, place in facts.holders.items()),
        makers="".join(makers),
        classes=", ".join(classes),
        loads=", ".join(f"{name}.load(**options)" for name in names) + ("," if len(names) == 1 else ""),
        first="\n".join(f"        {line}" for line in first),
        parameters=", ".join(f"{name}: jax.Array" for name in facts.inputs),
        body="\n".join(_turn(facts, number) for number in range(len(facts.turns))),
        losses=", ".join(f'"{one}": {one}' for one in losses),
    )


def _turn(facts: TurnsFacts, number: int) -> str:
    turn, source = facts.turns[number], facts.sources[number]
    roots = {one.name: one.roots for one in facts.optimizers}
    losses = facts.losses[number]
    results = [*losses, *(f"{one}_of_{number + 1}" for one in source.gives)]
    arguments = []
    for name in source.inputs:
        if name in source.takes:
            earlier, place = source.takes[name]
            before = facts.sources[earlier]
            moved = facts.moved.get((number, name), "")
            arguments.append(f"{before.gives[place - len(before.losses)]}_of_{earlier + 1}{moved}")
        else:
            arguments.append(name)
    trained = [root for name in turn.trains for root in roots[name]]
    models = [name for name in source.modules if name in facts.holders]
    stays = [name for name in models if name not in source.again]
    lines = [] if not stays else [f"    rest = joined(rest, only(moved, {_tuple(stays)}))"]
    for name in turn.trains:
        own = f"only(gradients, {_tuple(roots[name])})" if len(turn.trains) > 1 else "gradients"
        earlier_turns = [n for n, one in enumerate(facts.turns) if name in one.trains and n < number]
        is_alone = all(name not in one.trains for n, one in enumerate(facts.turns) if n != number)
        if earlier_turns:
            lines.append(f"    gradients_{name} = jax.tree.map(jax.numpy.add, gradients_{name}, {own})")
        elif not is_alone or len(turn.trains) > 1:
            lines.append(f"    gradients_{name} = {own}")
    text = TURN.substitute(
        number=number + 1,
        place=number,
        models=_tuple(models),
        results=", ".join(results) if len(results) > 1 else results[0],
        inputs=", ".join(arguments),
        total=" + ".join(losses),
        trained=_tuple(trained),
        moved="moved" if stays else "_",
        kept="".join(f"{line}\n" for line in lines),
    )
    for name, _ in turn.updates:
        is_plain = turn.trains == (name,) and all(name not in one.trains for one in facts.turns if one is not turn)
        text += UPDATE.substitute(
            name=name,
            roots=_tuple(roots[name]),
            where=facts.places[name],
            gradients="gradients" if is_plain else f"gradients_{name}",
        )
    return text


def _tuple(names: Sequence[str]) -> str:
    return repr(tuple(dict.fromkeys(names)))


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
