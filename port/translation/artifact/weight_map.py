"""Where every tensor of the original goes in the written module: its mapping."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.mapping import FROZEN, TORCH_ONLY, Entry, Mapping, between
from port.mapping.given import BUFFER
from port.moves import Fold, Permute, Tie
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.lowered import LoweredGraph
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.constructors import is_function
from port.translation.structure.frozen_parameters import is_all_frozen


def mapping_of(placed: LoweredGraph, tree: ModuleTree, attributes: set[str]) -> tuple[Mapping, dict[str, str]]:
    """The mapping from the original's state dict to the written module's variables.

    Args:
        placed: the run.
        tree: of the modules.
        attributes: Flax's paths of all variables that the written module has.

    Returns:
        the mapping; and for buffers that no state dict holds, their names in the original → Flax's paths.
    """
    state = tree.root.state_dict(keep_vars=True)
    first: dict[int, str] = {}
    names: dict[str, list[str]] = {}
    for key, tensor in state.items():
        if hasattr(tensor, "shape"):
            names.setdefault(first.setdefault(id(tensor), key), []).append(key)
    entries: dict[str, Entry] = {}
    for path, layer in tree.layers.items():
        entries.update(_of_layer(placed, tree, path, layer, attributes))
    layouts = {name: placed.layouts[value] for value, name in placed.graph.held.items()}
    for key, tensor in state.items():
        if key in entries or key not in names:
            continue
        entries[key] = _of_own(tree, key, tensor, layouts, attributes)
    made = [_tied(entry, names) for entry in dict.fromkeys(entries.values()) if entry.sources[0] in names]
    order = {key: place for place, key in enumerate(state)}
    made.sort(key=lambda entry: order.get(entry.sources[0], len(order)))
    hidden = {
        name: tree.flax_path(*_split(name))
        for name, _ in tree.root.named_buffers()
        if name not in state and tree.flax_path(*_split(name)) in attributes
    }
    return Mapping(tuple(made)), hidden


def _split(key: str) -> tuple[str, str]:
    path, _, name = key.rpartition(".")
    return path, name


def _of_layer(placed: LoweredGraph, tree: ModuleTree, path: str, layer: Any, attributes: set[str]) -> dict[str, Entry]:
    if not layer.state_dict():
        return {}
    found: dict[str, Entry] = {}
    parameters = dict(layer.named_parameters(remove_duplicate=False))
    beneath = "" if is_function(layer) else tree.flax_path(path, "").removesuffix(".")
    for entry in between(torch=layer).entries:
        sources = tuple(f"{path}.{name}" if path else name for name in entry.sources)
        targets = tuple(f"{beneath}.{name}" if beneath else name for name in entry.targets)
        moves = entry.moves
        folded = placed.folds.get(path)
        if folded is not None and entry.sources == ("weight",):
            moves = (Fold(1, folded.shape, folded.order), *moves)
        made = replace(entry, sources=sources, targets=targets, moves=moves)
        if entry.collection == "params" and is_all_frozen(parameters.get(name) for name in entry.sources):
            made = replace(made, collection=FROZEN)
        if entry.collection != TORCH_ONLY and not set(targets) <= attributes:
            made = Entry(sources[:1], sources[:1], (), TORCH_ONLY, entry.shapes, True)
        found.update(dict.fromkeys(sources, made))
    return found


def _of_own(tree: ModuleTree, key: str, tensor: Any, layouts: dict[str, Layout], attributes: set[str]) -> Entry:
    shape = tuple(tensor.shape)
    target = tree.flax_path(*_split(key))
    if target not in attributes:
        return Entry((key,), (key,), (), TORCH_ONLY, (shape,), True)
    layout = layouts.get(key, torchs(len(shape)))
    moves = () if layout.is_torchs else (Permute(layout.order),)
    is_parameter = tensor.requires_grad or type(tensor).__name__ == "Parameter"
    kind = ("params" if tensor.requires_grad else FROZEN) if is_parameter else BUFFER
    return Entry((key,), (target,), moves, kind, (shape,))


def _tied(entry: Entry, names: dict[str, list[str]]) -> Entry:
    """An entry with every name of its tensor."""
    if len(entry.sources) != 1 or len(names.get(entry.sources[0], ())) < 2 or entry.is_tied:
        return entry
    all_names = tuple(names[entry.sources[0]])
    shapes = None if entry.shapes is None else entry.shapes * len(all_names)
    return replace(entry, sources=all_names, moves=(Tie(len(all_names)), *entry.moves), shapes=shapes)
