"""Writes a mapping as rules: one for all layers that are alike, with a pattern for the number (``layers\\.(\\d+)``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from port.errors import WeightsMismatch
from port.mapping import Entry, Guide, Rule, Rules
from port.mapping.file import toml_value
from port.moves.spec import spec_of

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class _Form:
    """An entry without its numbers.

    Attributes:
        source: the first source's text between the numbers that it shares with the targets.
        others: the other sources, with ``\\1`` for those numbers.
        targets: the targets, likewise.
        moves: as in a mapping file.
        collection: Flax's kind of variable; None if the Flax model determines it.
    """

    source: tuple[str, ...]
    others: tuple[str, ...]
    targets: tuple[str, ...]
    moves: str
    collection: str | None


def rules_of_entries(entries: Iterable[Entry], torch: Guide, flax: Guide) -> Rules:
    """Find the fewest rules that are equivalent to the entries, in order.

    Args:
        entries: from torch to Flax.
        torch: torch's guide: a pattern must not match more of its keys than the entries do.
        flax: Flax's guide.
    """
    forms: dict[_Form, list[tuple[tuple[str, ...], Entry]]] = {}
    for entry in entries:
        form, numbers = _form(entry)
        forms.setdefault(form, []).append((numbers, entry))
    rules: list[Rule] = []
    for form, members in forms.items():
        rule = _rule(form, [numbers for numbers, _ in members], torch)
        if _is_equivalent(rule, [entry for _, entry in members], torch, flax):
            rules.append(rule)
        else:
            rules += [_literal(entry) for _, entry in members]
    return Rules(rules=tuple(rules))


def _form(entry: Entry) -> tuple[_Form, tuple[str, ...]]:
    first = entry.sources[0]
    elsewhere = {number for name in entry.targets for number in _NUMBER.findall(name)}
    if len(entry.targets) == 1 and entry.targets[0] == first:
        elsewhere = set(_NUMBER.findall(first))
    parts: list[str] = [""]
    numbers: list[str] = []
    end = 0
    for found in _NUMBER.finditer(first):
        is_index = found.start() == 0 or first[found.start() - 1] in "._"
        if is_index and found[0] in elsewhere and found[0] not in numbers:
            parts[-1] += first[end : found.start()]
            parts.append("")
            numbers.append(found[0])
        else:
            parts[-1] += first[end : found.end()]
        end = found.end()
    parts[-1] += first[end:]
    places = {number: place for place, number in enumerate(numbers, 1)}

    def templated(name: str) -> str:
        escaped = name.replace("\\", "\\\\")
        return _NUMBER.sub(lambda found: f"\\{places[found[0]]}" if found[0] in places else found[0], escaped)

    moves = json.dumps([spec_of(move) for move in entry.moves])
    collection = entry.collection if entry.collection == "torch_only" else None
    others = tuple(map(templated, entry.sources[1:]))
    return _Form(tuple(parts), others, tuple(map(templated, entry.targets)), moves, collection), tuple(numbers)


def _rule(form: _Form, numbers: list[tuple[str, ...]], torch: Guide) -> Rule:
    """The form's rule; it matches any numbers, or only the entries' if other keys have others."""
    loose = "(\\d+)".join(map(re.escape, form.source))
    matching = {found.groups() for name in torch.leaves if (found := re.fullmatch(loose, name))}
    source = loose
    if matching != set(numbers):
        choices = [dict.fromkeys(place) for place in zip(*numbers, strict=True)]
        source = re.escape(form.source[0])
        for choice, part in zip(choices, form.source[1:], strict=True):
            source += f"({'|'.join(choice)})" + re.escape(part)
    return Rule((source, *form.others), form.targets, tuple(json.loads(form.moves)), form.collection)


def _literal(entry: Entry) -> Rule:
    sources = (re.escape(entry.sources[0]), *(name.replace("\\", "\\\\") for name in entry.sources[1:]))
    targets = tuple(name.replace("\\", "\\\\") for name in entry.targets)
    collection = entry.collection if entry.collection == "torch_only" else None
    return Rule(sources, targets, tuple(spec_of(move) for move in entry.moves), collection)


def _is_equivalent(rule: Rule, entries: list[Entry], torch: Guide, flax: Guide) -> bool:
    """Whether a rule is equivalent to the entries."""
    try:
        made = Rules(rules=(rule,)).entries(torch, flax)
    except WeightsMismatch:
        return False
    return {_facts(entry) for entry in made} == {_facts(entry) for entry in entries}


def _facts(entry: Entry) -> tuple[Any, ...]:
    return entry.sources, entry.targets, entry.moves


# %% As text


def written(rules: Rules, remarks: Iterable[str] = ()) -> str:
    """Format rules as a mapping file.

    Args:
        rules: the mapping's rules.
        remarks: comment lines above them.
    """
    comments = "".join(f"# {line}\n" for remark in remarks for line in remark.splitlines())
    tables = [_table(rule) for rule in rules.rules]
    if rules.keep:
        tables.insert(0, f"keep = {toml_value(list(rules.keep))}\n")
    return "\n".join([*([comments] if comments else []), *tables]) or "rule = []\n"


def _table(rule: Rule) -> str:
    lines = ["[[rule]]", f"source = {_names(rule.sources)}", f"target = {_names(rule.targets)}"]
    if rule.moves:
        lines.append(f"moves = {toml_value(list(rule.moves))}")
    if rule.collection is not None:
        lines.append(f"collection = {_text(rule.collection)}")
    return "\n".join(lines) + "\n"


def _names(names: tuple[str, ...]) -> str:
    return _text(names[0]) if len(names) == 1 else "[" + ", ".join(map(_text, names)) + "]"


def _text(text: str) -> str:
    """A TOML string: a literal one if possible, so that a pattern is readable."""
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    return toml_value(text)
