"""Where to look if the sides diverge: the first step, the hints, and the notes that apply to this run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from port.pairs import all_pairs, name_of
from port.pairs.notes import NOTES, Note
from port.pairs.optimizers import all_optimizers
from port.report.page.subject import Subject

_OF_PRECISION = {"float64": ("P2",), "float32": ("P1", "P3")}


@dataclass(frozen=True)
class Touched:
    """A note, and which parts of this run it applies to."""

    note: Note
    because: list[str]


def notes_of(subjects: Sequence[Subject], config: Mapping[str, Any]) -> list[Touched]:
    """Return the notes on this run's layers, loss and optimizer, and on replicas and accumulation if it uses them.

    The layers are those named in a record's first line; without such names, no layer notes are returned.
    """
    because: dict[str, list[str]] = {}

    def touch(ids: Iterable[str], what: str) -> None:
        for id in ids:
            reasons = because.setdefault(id, [])
            if what not in reasons:
                reasons.append(what)

    for name in _named(subjects, config, "layers", "criterion"):
        touch(_notes_of_layer(name), _short(name))
    for name in _named(subjects, config, "optimizer"):
        touch(_notes_of_optimizer(name), _short(name))
    if any(count > 1 for count in _counts(config, "accumulate")):
        touch((note.id for note in NOTES if note.id.startswith("A")), "accumulated gradients")
    if any(count > 1 for count in (*_counts(config, "devices"), *_counts(config, "processes"))):
        touch((note.id for note in NOTES if note.id.startswith("D")), "several replicas")
    for subject in subjects:
        touch(_OF_PRECISION.get(subject.precision, ()), subject.precision)
    return [Touched(note, because[note.id]) for note in NOTES if note.id in because]


def layers_are_known(subjects: Sequence[Subject]) -> bool:
    """Whether a record names the layers of its model."""
    return any(_strings(record.about.get("layers")) for subject in subjects for _, record in subject.records)


def _named(subjects: Sequence[Subject], config: Mapping[str, Any], *keys: str) -> list[str]:
    """Return the class names that the records, or else the config, hold under these keys."""
    found: list[str] = []
    for subject in subjects:
        for _, record in subject.records:
            its_config = record.about.get("config")
            for key in keys:
                found += _strings(record.about.get(key))
                found += _strings(its_config.get(key)) if isinstance(its_config, Mapping) else []
    for key in keys:
        found += _strings(config.get(key))
    return list(dict.fromkeys(found))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _notes_of_layer(name: str) -> list[str]:
    public = f"torch.nn.{_short(name)}" if name.startswith("torch.nn.modules.") else name
    return [id for pair in all_pairs() if name_of(pair.torch) in (name, public) for id in pair.notes]


def _notes_of_optimizer(name: str) -> list[str]:
    # torch gives the full path of a class: torch.optim.adam.Adam.
    public = f"torch.optim.{_short(name)}" if name.startswith("torch.optim.") else name
    return [id for pair in all_optimizers() if pair.torch == public or pair.name == name.lower() for id in pair.notes]


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _counts(config: Mapping[str, Any], key: str) -> list[int]:
    value = config.get(key)
    return [value] if isinstance(value, int) else []
