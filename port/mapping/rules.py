"""The user's rules about two models: renamings, and entries with explicit moves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from port.errors import UsageError, WeightsMismatch
from port.mapping.entry import TORCH_ONLY, Entry
from port.mapping.guide import Guide
from port.mapping.names import natural, nearest
from port.moves.spec import Spec, moves_from


@dataclass(frozen=True)
class Rule:
    """Torch keys that match a pattern, their targets, and the moves between.

    Attributes:
        sources: the first is a regular expression for the whole key; the others are templates for its match (``\\1``).
        targets: Flax paths, templates likewise. Matches that expand to the same targets go there together, in natural
            order: this is what ``stack`` and ``join`` are for.
        moves: as `port.moves.spec.move_from` reads them.
        collection: Flax's kind of variable; `TORCH_ONLY` for a tensor without a place there, which is kept aside.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    moves: tuple[Spec, ...] = ()
    collection: str | None = None

    def __str__(self) -> str:
        return f"rule {', '.join(self.sources)} → {', '.join(self.targets)}"


@dataclass(frozen=True)
class Rules:
    """All of the user's rules about two models.

    Attributes:
        rename: pattern → replacement, applied to torch's keys.
        fold: path of a linear layer → the (channels, *spatial) features that were flattened before it.
        rules: entries with explicit moves; the tensors in them are settled.
        keep: Flax paths that have no twin, and keep their values.
    """

    rename: dict[str, str] = field(default_factory=dict)
    fold: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    keep: tuple[str, ...] = ()

    def entries(self, torch: Guide, flax: Guide | None) -> tuple[Entry, ...]:
        """Return the rules' entries for these two models.

        Raises:
            WeightsMismatch: rules that match no key, or name keys, paths and shapes that do not exist; all of them.
        """
        entries: list[Entry] = []
        wrong: list[str] = []
        for rule in self.rules:
            try:
                entries += _expanded(rule, torch, flax)
            except WeightsMismatch as error:
                wrong.append(f"{rule}: {error}")
        if wrong:
            raise WeightsMismatch("the mapping's rules do not fit the models:\n  " + "\n  ".join(wrong))
        return tuple(entries)


def rules_from(data: dict[str, Any], where: str) -> Rules:
    """Read rules from a mapping file's tables.

    Raises:
        UsageError: a table is invalid; says where.
    """
    known = ("rename", "fold", "rule", "keep")
    if unknown := sorted(set(data) - {*known}):
        raise UsageError(f"{where}: unknown {', '.join(unknown)}; there are {', '.join(known)}, and entry")
    rename = dict(_each(data, "rename", where, _rename))
    fold = data.get("fold", {})
    if not isinstance(fold, dict) or not all(map(_is_shape, fold.values())):
        raise UsageError(f"{where}, fold: use layer = [channels, height, width], as in fc = [512, 7, 7]")
    shapes = {path: tuple(shape) for path, shape in fold.items()}
    return Rules(rename, shapes, tuple(_each(data, "rule", where, _rule)), kept_from(data, where))


def kept_from(data: dict[str, Any], where: str) -> tuple[str, ...]:
    """Read the Flax paths that keep their values, from a mapping file.

    Raises:
        UsageError: something other than paths.
    """
    keep = data.get("keep", [])
    if not isinstance(keep, list) or not all(isinstance(path, str) for path in keep):
        raise UsageError(f"{where}: keep is a list of Flax's paths, which have no twin and keep their values")
    return tuple(keep)


def names_from(value: Any) -> tuple[str, ...]:
    """Return one name or a list of names as a tuple.

    Raises:
        ValueError: the value is neither.
    """
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"source and target are a name each, or a list of names; got {value!r}")
    return tuple(names)


Read = TypeVar("Read")


def _each(data: dict[str, Any], kind: str, where: str, read: Callable[[dict[str, Any]], Read]) -> Iterator[Read]:
    """Read the tables of one kind."""
    tables = data.get(kind, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{where}: each {kind} is a table of its own, under [[{kind}]]")
    for number, table in enumerate(tables, 1):
        try:
            yield read(table)
        except KeyError as error:
            raise UsageError(f"{where}, {kind} {number}: {error.args[0]} is missing") from error
        except (ValueError, re.error) as error:
            raise UsageError(f"{where}, {kind} {number}: {error}") from error


def _rename(table: dict[str, Any]) -> tuple[str, str]:
    if unknown := sorted(set(table) - {"from", "to"}):
        raise ValueError(f"a rename has from and to, not {', '.join(unknown)}")
    if not all(isinstance(value, str) for value in table.values()):
        raise ValueError("from is a regular expression, and to is what replaces it")
    re.compile(table["from"])
    return table["from"], table["to"]


def _rule(table: dict[str, Any]) -> Rule:
    if unknown := sorted(set(table) - {"source", "target", "moves", "collection"}):
        raise ValueError(f"a rule has source, target, moves and collection, not {', '.join(unknown)}")
    moves, collection = table.get("moves", []), table.get("collection")
    if not isinstance(moves, list) or not isinstance(collection, str | None):
        raise ValueError("moves are a list, as in [{permute = [1, 0]}], and a collection is a name")
    rule = Rule(names_from(table["source"]), names_from(table["target"]), tuple(moves), collection)
    re.compile(rule.sources[0])
    return rule


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(size) is int and size > 0 for size in value)


def _expanded(rule: Rule, torch: Guide, flax: Guide | None) -> list[Entry]:
    homes: dict[tuple[str, ...], list[str]] = {}
    try:
        for key in sorted(torch.leaves, key=natural):
            if match := re.fullmatch(rule.sources[0], key):
                targets = tuple(match.expand(target) for target in rule.targets)
                homes.setdefault(targets, []).extend([key, *(match.expand(source) for source in rule.sources[1:])])
    except (re.error, IndexError) as error:
        raise WeightsMismatch(f"invalid template: {error}") from None
    if not homes:
        raise WeightsMismatch("it matches no key of the torch side")
    return [_entry(rule, tuple(sources), targets, torch, flax) for targets, sources in homes.items()]


def _entry(rule: Rule, sources: tuple[str, ...], targets: tuple[str, ...], torch: Guide, flax: Guide | None) -> Entry:
    absent = [f"torch has no {name}{nearest(name, torch.leaves)}" for name in sources if name not in torch.leaves]
    is_aside = rule.collection == TORCH_ONLY
    if flax is not None and not is_aside:
        absent += [f"Flax has no {name}{nearest(name, flax.leaves)}" for name in targets if name not in flax.leaves]
    if absent:
        raise WeightsMismatch("; ".join(absent))
    shapes = tuple(torch.leaves[source].shape for source in sources)
    try:
        moves = moves_from(list(rule.moves), shapes)
    except WeightsMismatch as error:
        raise WeightsMismatch(f"{', '.join(sources)}: {error}") from None
    entry = Entry(sources, targets, moves, _collection(rule, targets, flax), shapes, optional=is_aside)
    if is_aside:
        return entry
    for target, shape in zip(targets, entry.target_shapes(), strict=True):
        if flax is not None and flax.leaves[target].shape != shape:
            raise WeightsMismatch(f"{entry}: it produces shape {shape}, {target} has {flax.leaves[target].shape}")
    return entry


def _collection(rule: Rule, targets: tuple[str, ...], flax: Guide | None) -> str:
    if rule.collection is not None:
        return rule.collection
    return flax.leaves[targets[0]].collection if flax is not None else "params"
