"""`port.match`: the mapping between two models that were written apart: proposed, decided by activations, proved."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Tree
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.errors import UsageError
from port.mapping import TORCH_ONLY, Entry, Guide, Mapping, Rules, rules_of
from port.mapping.complain import Complaints
from port.mapping.folding import folded, folds
from port.mapping.grouping import Found, entries_of
from port.mapping.renaming import Renaming
from port.mapping.slots import is_extra_state
from port.matching.activations import Activations, FlaxRuns, alike, torch_activations
from port.matching.flattening import flattened_shapes
from port.matching.options import Node
from port.matching.patterns import rules_of_entries, written
from port.matching.problem import Problem, problem_of
from port.matching.proposing import Rivals, proposed
from port.matching.result import Match, Row
from port.matching.rows import rows_of
from port.matching.solving import Solver, outputs_agree
from port.matching.state import State
from port.matching.torch_units import torch_units
from port.matching.units import Unit, units_of
from port.parity.precision import cpu_precision

if TYPE_CHECKING:
    import torch

    from port.parity.flax_side import FlaxSide
    from port.parity.given import Inputs, Layout
    from port.parity.run import Run
    from port.parity.sides import Keywords
    from port.parity.torch_side import TorchSide

EXACT, NARROWED = 1e-7, 1e-4
"""How far two fingerprints may be apart, in float64 and where a model goes through float32."""


def match(
    torch_module: torch.nn.Module,
    flax_module: Any,
    inputs: Any,
    *,
    rename: Tree[str, str] | Rules | Mapping | Path | str | None = None,
    fold: Tree[str, tuple[int, ...]] | None = None,
    channels_last: bool | None = None,
    flax_inputs: Any = None,
    flax_keywords: Keywords | None = None,
) -> Match:
    """Propose the mapping between two models that were written apart, and prove it.

    What belongs together is looked for in this order: what the user's rules say; kinds of layers and shapes; names;
    the order in which both models call their layers. Both then run on the same inputs with the same random weights,
    and layers that are given the same numbers belong together; where several are given the same, each possibility is
    tried. `port.check` proves the result. What two possibilities agree with is left open, with both of them.

    Args:
        torch_module: torch's model.
        flax_module: an nnx module, or (Linen module, variables).
        inputs: torch's: one tensor or array, a tuple of positional arguments, or a dict of keyword arguments.
        rename: what the user knows: see `port.mapping.between`; it comes first.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it; those
            that are not given are looked for.
        channels_last: as in `port.check`.
        flax_inputs: Flax's inputs, where they are not torch's in another layout.
        flax_keywords: as in `port.check`.

    Returns:
        the mapping, the table, the proof; it is true where the mapping is proved.

    Raises:
        UsageError: a model that does not take its inputs; models or rules that are none.
        WeightsMismatch: rules of the user's that do not fit the models.
        NoPair: a lazy layer that has not been run.
    """
    from port.parity.sides import see_that_they_are_models

    see_that_they_are_models(torch_module, flax_module)
    rules, fold = rules_of(rename), folds(fold)
    with cpu_precision(x64=True):
        sides = _both_sides(torch_module, flax_module, inputs, channels_last, flax_inputs, flax_keywords)
        if isinstance(rules, Mapping):
            return _given_whole(sides, rules)
        return _matched(sides, replace(rules, fold={**rules.fold, **fold}))


@dataclass(frozen=True)
class _Sides:
    """Both models as they run.

    Attributes:
        module: torch's, with random weights.
        torch: its side.
        flax: Flax's side.
        flax_module: as it was given.
        run: torch's.
        given: torch's inputs.
        runs: of Flax's side.
        own: what Flax's first run showed, with its own weights.
        layout: of the inputs.
        is_narrowed: whether either model makes float32 of float64.
        options: of `port.check`.
    """

    module: Any
    torch: TorchSide
    flax: FlaxSide
    flax_module: Any
    run: Run
    given: Inputs
    runs: FlaxRuns
    own: Activations
    layout: Layout
    is_narrowed: bool
    options: dict[str, Any]


def _both_sides(
    torch_module: Any,
    flax_module: Any,
    inputs: Any,
    channels_last: bool | None,
    flax_inputs: Any,
    flax_keywords: Keywords | None,
) -> _Sides:
    from port.mapping.torch_guide import unwrapped
    from port.matching.random_weights import with_random_weights
    from port.parity.checking import layout_between
    from port.parity.given import for_flax, inputs_from
    from port.parity.outputs import Drawn
    from port.parity.sides import flax_side
    from port.parity.torch_side import TorchSide

    module = with_random_weights(unwrapped(torch_module))
    torch = TorchSide(module, "float64")
    given = inputs_from(inputs, "float64")
    run = torch.run(given, Drawn(), training=False)
    layout = layout_between(torch, run, given, channels_last)

    def side(layout: Layout) -> tuple[FlaxSide, Inputs, FlaxRuns, Activations]:
        theirs = for_flax(given, layout) if flax_inputs is None else inputs_from(flax_inputs, "float64")
        flax = flax_side(flax_module, "float64", theirs, flax_keywords)
        runs = FlaxRuns(flax, theirs)
        return flax, theirs, runs, runs(flax.variables)[0]

    try:
        flax, theirs, runs, own = side(layout)
    except UsageError as error:
        # A Flax model may take its channels first, as torch's does.
        if channels_last is not None or flax_inputs is not None or not layout.moved:
            raise
        channels_last = False
        layout = layout_between(torch, run, given, False)
        try:
            flax, theirs, runs, own = side(layout)
        except UsageError:
            raise error from None
    options: dict[str, Any] = {"flax_keywords": flax_keywords, "channels_last": channels_last}
    if flax_inputs is not None:
        options["flax_inputs"] = flax_inputs
    narrowed = torch.narrowed(given) or flax.narrowed(theirs)
    return _Sides(module, torch, flax, flax_module, run, given, runs, own, layout, narrowed, options)


def _given_whole(sides: _Sides, mapping: Mapping) -> Match:
    """A mapping of the user's that is whole already: it is only proved."""
    rows = tuple(Row(entry.sources, entry.targets, "your rule") for entry in mapping.entries)
    text = written(rules_of_entries(mapping.entries, sides.torch.guide, sides.flax.guide))
    return _proved(sides, mapping, rows, text)


def _matched(sides: _Sides, rules: Rules) -> Match:
    torch, flax = sides.torch.guide, sides.flax.guide
    given = rules.entries(torch, flax)
    torch = _without(torch, {name for entry in given for name in entry.sources})
    flax = _without(flax, {name for entry in given for name in entry.targets})
    shown = torch_activations(sides.run)
    problem = _problem(sides, torch, flax, shown, rules)
    renaming = Renaming(rules.rename)
    state = proposed(problem, renaming, _rivals(problem.torch, shown))
    problem, state = _with_tied(problem, state, sides, torch, flax)
    solver = _solver(sides, problem, shown, given)
    state = solver.improved(state)
    open_nodes, other_ways = solver.undecided(state), solver.other_ways(state)
    agrees = solver.run(state).agree
    sure = state.without(set(open_nodes) | set(other_ways))
    aside = _aside(problem, state, torch)
    found = [match for made in sure.decisions.values() for match in made.option.found] + aside
    complaints = Complaints(torch, flax)
    entries = [*given, *entries_of(found, sides.torch.guide, flax, complaints)]
    entries = folded(entries, {path: shape for path, shape in rules.fold.items() if _holds(entries, path)})
    order = {name: place for place, name in enumerate(sides.torch.guide.leaves)}
    entries.sort(key=lambda entry: order.get(entry.sources[0], len(order)))
    mapping = Mapping(tuple(entries))
    rows = rows_of(problem, state, given, aside, open_nodes, other_ways, torch, flax)
    remarks = [*complaints.lines, *renaming.idle(sides.torch.guide.leaves)]
    if solver.is_tired:
        remarks.append("more hypotheses could have been tried: names or rules of yours would make it sure")
    is_open = any(row.by == "open" for row in rows) or bool(complaints.lines)
    text = written(rules_of_entries(entries, sides.torch.guide, sides.flax.guide), _comments(rows))
    if is_open:
        if not agrees and not open_nodes:
            remarks.append("the two models do not agree with what is matched so far")
        return Match(mapping, rows, None, tuple(remarks), text)
    return _proved(sides, mapping, rows, text, tuple(remarks))


def _proved(sides: _Sides, mapping: Mapping, rows: tuple[Row, ...], text: str, remarks: tuple[str, ...] = ()) -> Match:
    from port.parity import check

    more = []
    rtol = None
    if sides.is_narrowed:
        rtol = 1e-6
        more.append("a model goes through float32 on its way, so both are compared to 1e-6, not to 1e-10")
    try:
        report = check(
            sides.module, sides.flax_module, sides.given, rename=mapping, weights="torch", rtol=rtol, **sides.options
        )
    except UsageError as error:
        return Match(mapping, rows, None, (*remarks, *more, f"the proof cannot be run: {error}"), text)
    return Match(mapping, rows, report, (*remarks, *more), text)


# %% What the passes need


def _problem(sides: _Sides, torch: Guide, flax: Guide, shown: Activations, rules: Rules) -> Problem:
    theirs = torch_units(torch, sides.torch.modules)
    ours = units_of(flax)
    order = {unit: place for place, unit in enumerate(theirs)}
    theirs.sort(key=lambda unit: (shown.place(unit), order[unit]))
    ours.sort(key=lambda unit: sides.own.place(unit))
    shapes = flattened_shapes(sides.run, theirs, shown) if sides.layout.moved else {}
    shapes = {path: ways for path, ways in shapes.items() if path not in rules.fold}
    problem = problem_of(theirs, ours, flax, (_same_input(shown), _same_input(sides.own)), shapes)
    # Again, now that layers may stand in their parts.
    places = {node: number for number, node in enumerate(problem.torch)}
    nodes = sorted(problem.torch, key=lambda node: (shown.place(node[0]), places[node]))
    others = sorted(problem.flax, key=lambda node: sides.own.place(node[0]))
    return replace(problem, torch=tuple(nodes), flax=tuple(others))


def _same_input(shown: Activations) -> Callable[[Unit, Unit], bool]:
    return lambda one, other: alike(shown.input(one), shown.input(other), EXACT)


def _rivals(nodes: tuple[Node, ...], shown: Activations) -> Rivals:
    found: Rivals = {}
    for number, node in enumerate(nodes):
        for other in nodes[:number]:
            if other in found and alike(shown.input(node[0]), shown.input(other[0]), EXACT):
                found[node] = found[other]
                break
        else:
            if shown.input(node[0]) is not None:
                found[node] = number
    return found


def _with_tied(problem: Problem, state: State, sides: _Sides, torch: Guide, flax: Guide) -> tuple[Problem, State]:
    """Flax's nodes that have no twin, to the later names of torch's tied tensors, which Flax may hold apart."""
    left = tuple(node for node in problem.flax if node not in state.decisions)
    if not left or not torch.tied:
        return problem, state
    aliases = torch_units(torch, sides.torch.modules, tied=True)
    more = problem_of(aliases, [unit for node in left for unit in node], flax, (lambda a, b: False,) * 2, {})
    options = {pair: ways for pair, ways in more.options.items() if pair[1] in left}
    problem = Problem((*problem.torch, *more.torch), problem.flax, {**problem.options, **options})
    extra = proposed(Problem(more.torch, left, options), Renaming(), {})
    return problem, state.decided(extra.decisions)


def _solver(sides: _Sides, problem: Problem, shown: Activations, given: tuple[Entry, ...]) -> Solver:
    import jax.numpy as jnp

    weights = {name: array.astype("float64") if array.dtype.kind == "f" else array
               for name, array in sides.torch.weights.items()}  # fmt: skip
    own = dict(sides.flax.variables)
    for entry in given:
        if entry.collection != TORCH_ONLY:
            for path, array in zip(entry.targets, entry(tuple(weights[name] for name in entry.sources)), strict=True):
                own[path] = jnp.asarray(array, own[path].dtype)
    tolerance = NARROWED if sides.is_narrowed else EXACT
    agree = outputs_agree(sides.run.outputs, sides.layout, 1e-4 if sides.is_narrowed else 1e-8)
    return Solver(
        problem, shown, sides.runs, (sides.own, own), weights, (sides.torch.guide, sides.flax.guide), agree, tolerance
    )


def _aside(problem: Problem, state: State, torch: Guide) -> list[Found]:
    """torch's buffers, and parameters that are not trained, that Flax's model computes for itself or does without."""
    used = {made.option.torch for made in state.decisions.values()}
    names = [name for node in problem.torch if node not in used for unit in node for name in unit.tensors]
    names += [name for name in torch.leaves if is_extra_state(name)]
    is_trained = any(leaf.collection == "params" and not leaf.is_frozen for leaf in torch.leaves.values())
    constant = {
        n for n, leaf in torch.leaves.items() if leaf.collection == "buffers" or (leaf.is_frozen and is_trained)
    }
    return [Found((name,), (name,), (), TORCH_ONLY, True) for name in names if name in constant]


def _without(guide: Guide, names: set[str]) -> Guide:
    return replace(guide, leaves={name: leaf for name, leaf in guide.leaves.items() if name not in names})


def _holds(entries: list[Entry], path: str) -> bool:
    return any(f"{path}.weight" in entry.sources for entry in entries)


def _comments(rows: tuple[Row, ...]) -> list[str]:
    """What stands above the rules in the file: what is open, with what would decide it."""
    lines = []
    for row in rows:
        if row.by == "open":
            lines.append(f"open: {', '.join(row.torch) or 'nothing'} → {', '.join(row.flax) or 'nothing'} {row.note}")
            lines += [f"  could be {candidate}" for candidate in row.candidates]
    return lines
