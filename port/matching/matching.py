"""`port.match`: proposes the mapping between two models that were written separately, and proves it."""

from __future__ import annotations

from collections.abc import Mapping as Tree
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.mapping import TORCH_ONLY, Entry, Guide, Mapping, Rules, rules_of
from port.mapping.complain import Complaints
from port.mapping.folding import folded, folds
from port.mapping.found import Found
from port.mapping.given import BUFFER
from port.mapping.grouping import entries_of
from port.mapping.renaming import Renaming
from port.mapping.slots import is_extra_state
from port.matching.activations import EXACT, NARROWED, Activations, torch_activations
from port.matching.ambiguity import other_ways, undecided
from port.matching.idle import flax_outputs, idle, torch_outputs
from port.matching.improving import improved
from port.matching.options import Node
from port.matching.patterns import rules_of_entries, written
from port.matching.posing import grouped_by_input, posed, with_tied
from port.matching.problem import Problem
from port.matching.proposing import proposed
from port.matching.proving import ROUNDED, proved
from port.matching.result import Match, Row
from port.matching.rows import left_over, rows_of
from port.matching.running import StateRuns, outputs_apart
from port.matching.sides import Sides, both_sides
from port.matching.state import State
from port.parity.sides.building import check_models
from port.parity.sides.precision import cpu_precision

if TYPE_CHECKING:
    import torch

    from port.parity.sides.building import Keywords


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
    """Propose the mapping between two models that were written separately, and prove it.

    Twins are searched for in this order: the user's rules; kinds of layers and shapes; names; the order in which both
    models call their layers. Both then run on the same inputs with the same random weights, and layers with equal
    inputs are twins; if several have equal inputs, each possibility is tried. `port.check` proves the result. Where two
    possibilities agree, the row is left open and lists both.

    Args:
        torch_module: the torch model.
        flax_module: an nnx module, or (Linen module, variables).
        inputs: torch's inputs: one tensor or array, a tuple of positional arguments, or a dict of keyword arguments.
        rename: the user's rules, as in `port.mapping.between`; they take precedence.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it; others
            are searched for.
        channels_last: as in `port.check`.
        flax_inputs: Flax's inputs, if they are not torch's in another layout.
        flax_keywords: as in `port.check`.

    Returns:
        The mapping, the table, the proof; true if the mapping is proved.

    Raises:
        UsageError: a model does not accept its inputs; the models or rules are invalid.
        WeightsMismatch: the user's rules do not fit the models.
        NoPair: a lazy layer that has not been run.
    """
    check_models(torch_module, flax_module)
    rules, fold = rules_of(rename), folds(fold)
    with cpu_precision(x64=True):
        sides = both_sides(torch_module, flax_module, inputs, channels_last, flax_inputs, flax_keywords)
        if isinstance(rules, Mapping):
            return _mapping_passed_whole(sides, rules)
        return _matched(sides, replace(rules, fold={**rules.fold, **fold}))


def _mapping_passed_whole(sides: Sides, mapping: Mapping) -> Match:
    """Only prove a mapping that the user passed whole."""
    rows = tuple(Row(entry.sources, entry.targets, "your rule") for entry in mapping.entries)
    made = rules_of_entries(mapping.entries, sides.torch.guide, sides.flax.guide)
    text = written(replace(made, keep=mapping.kept))
    return proved(sides, mapping, rows, text)


def _matched(sides: Sides, rules: Rules) -> Match:
    torch, flax = sides.torch.guide, sides.flax.guide
    rule_entries = rules.entries(torch, flax)
    torch = _without(torch, {name for entry in rule_entries for name in entry.sources})
    flax = _without(flax, {*rules.keep, *(name for entry in rule_entries for name in entry.targets)})
    shown = torch_activations(sides.run)
    problem = posed(sides, torch, flax, shown, rules)
    renaming = Renaming(rules.rename)
    state = proposed(problem, renaming, grouped_by_input(problem.torch, shown))
    problem, state = with_tied(problem, state, sides, torch, flax)
    runs = _runs(sides, problem, shown, rule_entries)
    state = improved(runs, state)
    open_nodes, open_ways = undecided(runs, state), other_ways(runs, state)
    agrees = runs(state).agree
    sure = state.without(set(open_nodes) | set(open_ways))
    aside = _aside(problem, state, torch)
    idle_torch, idle_flax = _idle(sides, problem, state, aside)
    constants = _constants(problem, state, flax, aside)
    aside += [Found((name,), (name,), (), TORCH_ONLY, True) for name in sorted(idle_torch)]
    found = [match for made in sure.decisions.values() for match in made.option.found] + aside
    complaints = Complaints(torch, flax)
    entries = [*rule_entries, *entries_of(found, sides.torch.guide, flax, complaints)]
    entries = folded(entries, {path: shape for path, shape in rules.fold.items() if _holds(entries, path)})
    order = {name: place for place, name in enumerate(sides.torch.guide.leaves)}
    entries.sort(key=lambda entry: order.get(entry.sources[0], len(order)))
    kept = (*rules.keep, *sorted(idle_flax | constants))
    mapping = Mapping(tuple(entries), kept)
    alone = (idle_torch, idle_flax, constants)
    rows = rows_of(problem, state, rule_entries, aside, open_nodes, open_ways, torch, flax, alone)
    remarks = [*complaints.lines, *renaming.idle(sides.torch.guide.leaves)]
    if runs.are_spent:
        remarks.append("more hypotheses could have been tried: names or rules of yours would decide")
    is_open = any(row.by == "open" for row in rows) or bool(complaints.lines)
    made = replace(rules_of_entries(entries, sides.torch.guide, sides.flax.guide), keep=kept)
    text = written(made, _comments(rows))
    if is_open:
        if not agrees and not open_nodes:
            remarks.append("the two models do not agree with what is matched so far")
        return Match(mapping, rows, None, tuple(remarks), text)
    return proved(sides, mapping, rows, text, tuple(remarks))


# %% What the passes need


def _runs(sides: Sides, problem: Problem, shown: Activations, rule_entries: tuple[Entry, ...]) -> StateRuns:
    import jax.numpy as jnp

    weights = {name: array.astype("float64") if array.dtype.kind == "f" else array
               for name, array in sides.torch.weights.items()}  # fmt: skip
    own = dict(sides.flax.variables)
    for entry in rule_entries:
        if entry.collection != TORCH_ONLY:
            for path, array in zip(entry.targets, entry(tuple(weights[name] for name in entry.sources)), strict=True):
                own[path] = jnp.asarray(array, own[path].dtype)
    tolerances = (NARROWED, 10 * ROUNDED) if sides.is_narrowed else (EXACT, 1e-8)
    apart = outputs_apart(sides.run.outputs, sides.layout)
    guides = sides.torch.guide, sides.flax.guide
    return StateRuns(problem, shown, sides.runs, (sides.own, own), weights, guides, apart, tolerances)


def _aside(problem: Problem, state: State, torch: Guide) -> list[Found]:
    """torch's buffers, and parameters that are not trained, that the Flax model computes itself or does not need."""
    used = {made.option.torch for made in state.decisions.values()}
    names = [name for node in problem.torch if node not in used for unit in node for name in unit.tensors]
    names += [name for name in torch.leaves if is_extra_state(name)]
    is_trained = any(leaf.collection == "params" and not leaf.is_frozen for leaf in torch.leaves.values())
    constant = {
        n for n, leaf in torch.leaves.items() if leaf.collection == "buffers" or (leaf.is_frozen and is_trained)
    }
    return [Found((name,), (name,), (), TORCH_ONLY, True) for name in names if name in constant]


def _idle(sides: Sides, problem: Problem, state: State, aside: list[Found]) -> tuple[frozenset[str], frozenset[str]]:
    """Parameters of either side that have no twin, and do not affect what the models compute."""
    alone, others = _without_twins(problem, state, aside)
    return (
        idle(torch_outputs(sides), _parameters(sides.torch.guide, alone)),
        idle(flax_outputs(sides), _parameters(sides.flax.guide, others)),
    )


def _constants(problem: Problem, state: State, flax: Guide, aside: list[Found]) -> frozenset[str]:
    """Flax's constants, as a mask or an index, that the torch model computes itself or does not save."""
    _, others = _without_twins(problem, state, aside)
    names = (name for node in others for unit in node if unit.is_constant for name in unit.tensors)
    return frozenset(name for name in names if flax.leaves[name].collection != BUFFER)


def _without_twins(problem: Problem, state: State, aside: list[Found]) -> tuple[list[Node], list[Node]]:
    """Nodes of both sides that are left over, and cannot be each other's twins."""
    theirs, ours = left_over(problem, state, {name for found in aside for name in found.torch})
    alone = [node for node in theirs if not any(problem.between(node, other) for other in ours)]
    return alone, [node for node in ours if not any(problem.between(other, node) for other in theirs)]


def _parameters(guide: Guide, nodes: list[Node]) -> list[str]:
    names = [name for node in nodes for unit in node for name in unit.tensors]
    return [name for name in names if guide.leaves[name].collection == "params" and "float" in guide.leaves[name].dtype]


def _without(guide: Guide, names: set[str]) -> Guide:
    return replace(guide, leaves={name: leaf for name, leaf in guide.leaves.items() if name not in names})


def _holds(entries: list[Entry], path: str) -> bool:
    return any(f"{path}.weight" in entry.sources for entry in entries)


def _comments(rows: tuple[Row, ...]) -> list[str]:
    """The comments above the rules in the file: what is open, and what would decide it."""
    lines = []
    for row in rows:
        if row.by == "open":
            lines.append(f"open: {', '.join(row.torch) or 'nothing'} → {', '.join(row.flax) or 'nothing'} {row.note}")
            lines += [f"  could be {candidate}" for candidate in row.candidates]
    return lines
