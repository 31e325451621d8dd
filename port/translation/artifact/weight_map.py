"""Build the mapping from the original's tensors to the written module's variables."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from port.mapping import FROZEN, TORCH_ONLY, Entry, Mapping, between
from port.mapping.given import BUFFER
from port.moves import Fold, Permute, Tie
from port.translation.ir.layout import Folded, Layout, torchs
from port.translation.ir.lowered import LoweredGraph
from port.translation.structure.frozen_parameters import is_all_frozen
from port.translation.structure.program import Program


def mapping_of(runs: Collection[LoweredGraph], program: Program) -> tuple[Mapping, dict[str, str]]:
    """Build the mapping from the original's state dict to the written module's variables.

    Args:
        runs: the lowered graphs of all example calls, in both modes.
        program: the program that is emitted.

    Returns:
        The mapping; and for non-persistent buffers, name in the original → Flax's path.
    """
    tree = program.tree
    state = tree.root.state_dict(keep_vars=True)
    first: dict[int, str] = {}
    names: dict[str, list[str]] = {}
    for key, tensor in state.items():
        if hasattr(tensor, "shape"):
            names.setdefault(first.setdefault(id(tensor), key), []).append(key)
    entries: dict[str, Entry] = {}
    folds = {path: folded for run in runs for path, folded in run.folds.items()}
    for path, layer in tree.layers.items():
        entries.update(_of_layer(folds.get(path), program, path, layer))
    layouts = {name: run.layouts[value] for run in runs for value, name in run.graph.held.items()}
    for key, tensor in state.items():
        if key in entries or key not in names:
            continue
        held = _held_by_layer(entries, names[key])
        entries[key] = _of_own(program, key, tensor, layouts) if held is None else replace(held, sources=(key,))
    made = [_tied(entry, names) for entry in dict.fromkeys(entries.values()) if entry.sources[0] in names]
    order = {key: place for place, key in enumerate(state)}
    made.sort(key=lambda entry: order.get(entry.sources[0], len(order)))
    hidden = {
        name: tree.flax_path(*_split(name))
        for name, _ in tree.root.named_buffers()
        if name not in state and tree.flax_path(*_split(name)) in program.variables
    }
    return Mapping(tuple(made)), hidden


def _split(key: str) -> tuple[str, str]:
    path, _, name = key.rpartition(".")
    return path, name


def _of_layer(folded: Folded | None, program: Program, path: str, layer: Any) -> dict[str, Entry]:
    if not layer.state_dict():
        return {}
    found: dict[str, Entry] = {}
    parameters = dict(layer.named_parameters(remove_duplicate=False))
    beneath = program.tree.flax_path(path, "")
    for entry in between(torch=layer).entries:
        sources = tuple(f"{path}.{name}" if path else name for name in entry.sources)
        targets = tuple(f"{beneath}.{name}" if beneath else name for name in entry.targets)
        moves = entry.moves
        if folded is not None and entry.sources == ("weight",):
            moves = (Fold(1, folded.shape, folded.order), *moves)
        made = replace(entry, sources=sources, targets=targets, moves=moves)
        if entry.collection == "params" and is_all_frozen(parameters.get(name) for name in entry.sources):
            made = replace(made, collection=FROZEN)
        if entry.collection != TORCH_ONLY and path not in program.layers:
            made = Entry(sources[:1], sources[:1], (), TORCH_ONLY, entry.shapes, True)
        found.update(dict.fromkeys(sources, made))
    return found


def _of_own(program: Program, key: str, tensor: Any, layouts: dict[str, Layout]) -> Entry:
    shape = tuple(tensor.shape)
    target = program.tree.flax_path(*_split(key))
    if target not in program.variables:
        return Entry((key,), (key,), (), TORCH_ONLY, (shape,), True)
    layout = layouts.get(key, torchs(len(shape)))
    moves = () if layout.is_torchs else (Permute(layout.order),)
    is_parameter = tensor.requires_grad or type(tensor).__name__ == "Parameter"
    kind = ("params" if tensor.requires_grad else FROZEN) if is_parameter else BUFFER
    return Entry((key,), (target,), moves, kind, (shape,))


def _held_by_layer(entries: dict[str, Entry], names: list[str]) -> Entry | None:
    """Return a leaf layer's entry for a tensor with several names; None if no leaf layer holds it."""
    found = (entries[name] for name in names if name in entries)
    return next((entry for entry in found if entry.collection != TORCH_ONLY and len(entry.sources) == 1), None)


def _tied(entry: Entry, names: dict[str, list[str]]) -> Entry:
    """Add all names of a tied tensor to its entry."""
    if len(entry.sources) != 1 or len(names.get(entry.sources[0], ())) < 2 or entry.is_tied:
        return entry
    all_names = tuple(names[entry.sources[0]])
    shapes = None if entry.shapes is None else entry.shapes * len(all_names)
    return replace(entry, sources=all_names, moves=(Tie(len(all_names)), *entry.moves), shapes=shapes)
