"""The way from Flax variables back to torch: by the file's own record, the models, or the user's rules."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace

from port.errors import NoPair, UsageError, WeightsMismatch
from port.mapping import TORCH_ONLY, Entry, Guide, Mapping, between
from port.mapping.given import BUFFER, checked
from port.weights.direction import wrong_way
from port.weights.fingerprints import HASH
from port.weights.options import Options
from port.weights.record import UNKNOWN, ConversionRecord
from port.weights.sources import Source
from port.weights.widening import without_scales

HIDDEN = "a buffer that is not in torch's state dict: the model makes its own"
ABSENT = "not in the file, which has a part of the model"
HOMELESS = "it has no place in Flax, and the file was made without it: torch's own is kept"
SHOWN = 3


@dataclass
class WayBack:
    """What is converted back, and how.

    Attributes:
        tensors: Flax's variables under their paths, and what was kept for the way back under torch's names.
        mapping: from them to torch's keys.
        missing: torch's keys that are not in the file, with the reason.
        remarks: what the user should check.
        fingerprints: of torch's tensors when they were converted; others are not known.
        hash: the fingerprints' hash.
        strict: whether a tensor with another fingerprint is an error, since only the file's record is used.
        others: torch's tensors that came back with another fingerprint.
    """

    tensors: Source
    mapping: Mapping
    missing: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    fingerprints: dict[str, str] = field(default_factory=dict)
    hash: str = HASH
    strict: bool = True
    others: list[str] = field(default_factory=list)

    def check(self, name: str, fingerprint: str) -> None:
        """Compare a tensor that came back with the original one.

        Raises:
            WeightsMismatch: it differs, and only the file's record says how to read it.
        """
        if self.fingerprints.get(name, fingerprint) in (fingerprint, UNKNOWN):
            return
        self.others.append(name)
        if self.strict:
            raise WeightsMismatch(
                f"{self.tensors.origin}: {name} does not come back as it was converted: the tensors, or the record "
                "of their conversion, have been changed since. If that is intended, as after training, define how "
                "to read them: a mapping file (--mapping, rename=)"
            )

    def changed(self) -> list[str]:
        """A remark on the tensors that came back different from when they were converted."""
        if not self.others:
            return []
        return [
            f"{self.tensors.origin}: {_some(self.others)} came back different from when converted (trained, or "
            "broken): the record of the conversion is of other values"
        ]


def way_back(tensors: Source, options: Options) -> WayBack:
    """Determine how variables are converted back to torch.

    The user's rules (a mapping, a renaming, a fold) come first; then the file's record of its own conversion, checked
    against the models that are passed; then the models.

    Args:
        tensors: Flax's variables.
        options: the models, as far as they are known, and the user's rules.

    Raises:
        WeightsMismatch: the models and the variables, or the file's record, contradict each other.
        NoPair: layers that no pair covers.
        UsageError: nothing determines the variables' layout.
    """
    torch, flax = options.guides
    rules, fold, partial = options.rules, options.fold, options.partial
    has_rules = isinstance(rules, Mapping) or bool(rules.rename or rules.fold or rules.rules or fold)
    record = tensors.record
    variables = tensors.in_collections(lambda collection: collection != TORCH_ONLY)
    kept = tensors.in_collections(lambda collection: collection == TORCH_ONLY)
    if record is not None and not has_rules:
        if options.widen is not None:
            record = _staying_widened(record, tensors.origin)
        return _as_the_file_says(record, variables, kept, torch, flax, partial=partial)
    if options.widen is not None:
        raise UsageError(
            f"{tensors.origin} does not record that it was widened, or is read by other rules: leave the "
            "dtype to widen to out"
        )
    if torch is None and flax is None and not isinstance(rules, Mapping):
        raise UsageError(wrong_way(tensors, reverse=True) or _nothing_to_go_by(tensors))
    hidden = set(torch.hidden) if torch is not None else set()
    if isinstance(rules, Mapping):
        hidden |= _buffers(tensors, flax)
        hidden -= {target for entry in rules.entries for target in entry.targets}
    variables = variables.without(hidden, HIDDEN)
    known = flax if flax is not None else (torch if partial else None)
    names = None if known is not None else variables.guide("flax")
    mapping = between(torch, flax if flax is not None else names, rename=rules, fold=fold)
    result = _result(mapping, variables, kept, partial=partial)
    result.strict = False
    if record is not None:
        result.hash = record.hash
        result.fingerprints = {
            name: record.fingerprints[name]
            for entry in _alike(mapping, record.mapping)
            for name in entry.sources
            if name in record.fingerprints
        }
        result.remarks += _contradictions(mapping, record)
    return result


def _staying_widened(record: ConversionRecord, origin: str) -> ConversionRecord:
    """The record of a file as if its quantised weights had been the widened ones."""
    widened = [entry for entry in record.mapping.entries if entry.changes_dtype]
    if not widened:
        raise UsageError(f"{origin} was not widened: leave the dtype to widen to out")
    mapping = without_scales(record.mapping)
    quantised = {source for entry in widened for source in entry.sources}
    there = {source for entry in mapping.entries for source in entry.sources}
    prints = {
        name: UNKNOWN if name in quantised else fingerprint
        for name, fingerprint in record.fingerprints.items()
        if name in there or name not in quantised
    }
    return replace(record, mapping=mapping, fingerprints=prints)


def _nothing_to_go_by(tensors: Source) -> str:
    model = "--torch MODULE:NAME or --flax MODULE:NAME; in Python like= or model="
    if tensors.record is not None:
        return (
            f"{tensors.origin} records how it was converted: leave the renaming or the fold out, or pass the model "
            f"that they are of ({model})"
        )
    return (
        f"{tensors.origin}: variables alone do not determine their layout, and their conversion is not recorded: pass "
        f"a model ({model}), or the mapping"
    )


def _as_the_file_says(
    record: ConversionRecord, variables: Source, kept: Source, torch: Guide | None, flax: Guide | None, *, partial: bool
) -> WayBack:
    try:
        mapping = checked(record.mapping, torch, flax)
    except (WeightsMismatch, NoPair) as error:
        raise UsageError(
            f"{variables.origin} records how it was converted, but the model that is passed is another:\n"
            f"{error}\nLeave the model out to use the record, or pass a whole mapping instead (--mapping)"
        ) from error
    if record.lacking and (torch is not None or flax is not None) and not partial:
        raise WeightsMismatch(
            f"{variables.origin} was converted from a part of a model: {_some(record.lacking)} not in it. Take what is "
            "there with --partial"
        )
    there = Mapping(tuple(entry for entry in mapping.entries if _any(entry.sources, record.fingerprints)))
    result = _result(there, variables.without(record.hidden, HIDDEN), kept, partial=False)
    result.fingerprints, result.hash = record.fingerprints, record.hash
    result.missing |= {
        name: "was not in the file that was converted" if entry.collection != TORCH_ONLY else HOMELESS
        for entry in mapping.entries
        if not _any(entry.sources, record.fingerprints)
        for name in entry.sources
    }
    result.remarks += _lost(record)
    return result


def _any(names: tuple[str, ...], there: Container[str]) -> bool:
    return any(name in there for name in names)


def _result(mapping: Mapping, variables: Source, kept: Source, *, partial: bool) -> WayBack:
    known = {source for entry in mapping.entries if entry.collection == TORCH_ONLY for source in entry.sources}
    extra = tuple(Entry((name,), (name,), collection=TORCH_ONLY) for name in kept if name not in known)
    tensors = variables.beside(kept)
    homeless = [entry for entry in mapping.entries if entry.collection == TORCH_ONLY and not _any(entry.sources, kept)]
    back = Mapping((*(entry.inverse() for entry in mapping.entries if entry not in homeless), *extra))
    missing = {name: HOMELESS for entry in homeless for name in entry.sources}
    if partial:
        back, lacking = part_of(back, tensors)
        missing |= {name: ABSENT for entry in lacking for name in entry.targets}
    back.check(tensors.shapes)
    missing |= {
        name: "not in the file: the model keeps its own"
        for entry in back.entries
        if not _any(entry.sources, tensors)
        for name in entry.targets
    }
    return WayBack(tensors, back, missing)


def part_of(mapping: Mapping, tensors: Source) -> tuple[Mapping, list[Entry]]:
    """The entries whose sources a file with a part of the model has, and the others."""
    there = tuple(mapping.present(tensors))
    return Mapping(there), [entry for entry in mapping.entries if entry not in set(there)]


def _buffers(tensors: Source, flax: Guide | None) -> set[str]:
    """Flax's buffers, which a whole mapping may leave out."""
    in_file = (name for name, collection in tensors.collections().items() if collection == BUFFER)
    in_model = (name for name, leaf in flax.leaves.items() if leaf.collection == BUFFER) if flax is not None else ()
    in_record = tensors.record.hidden if tensors.record is not None else ()
    return {*(name.partition(".")[2] for name in in_file), *in_model, *in_record}


def _alike(mapping: Mapping, other: Mapping) -> list[Entry]:
    """The entries that both mappings have: names and moves, whatever their shapes."""
    there = {(entry.sources, entry.targets, entry.moves) for entry in other.entries}
    return [entry for entry in mapping.entries if (entry.sources, entry.targets, entry.moves) in there]


def _contradictions(mapping: Mapping, record: ConversionRecord) -> list[str]:
    own = {name: entry for entry in record.carried for name in entry.targets}
    alike = set(_alike(mapping, record.mapping))
    different = [
        (entry, own[entry.targets[0]]) for entry in mapping.entries if entry.targets[0] in own and entry not in alike
    ]
    if not different:
        return []
    passed, files = different[0]
    return [
        f"what is passed contradicts the file's record of its conversion, and is used: {len(different)} "
        f"of its entries, as {passed}; the file: {files}"
    ]


def _lost(record: ConversionRecord) -> list[str]:
    """Remarks on what the way back cannot restore."""
    remarks = []
    if record.dtypes:
        before = ", ".join(sorted(set(record.dtypes.values())))
        remarks.append(
            f"the conversion cast {len(record.dtypes)} tensors from {before}: they come back as cast, without the lost "
            "digits"
        )
    if summed := [name for entry in record.carried if entry.sums for name in entry.sources]:
        remarks.append(
            f"Flax keeps the sum of {_some(summed)}: it comes back as the sum and zeros, the same function but not the "
            "same bits"
        )
    if record.renamed is not None:
        long, short = record.renamed
        remarks.append(f"names come back as the model's own, without a wrapper's prefix: {short}, which was {long}")
    lost = "not restored, the conversion left it out"
    return remarks + [f"{lost}: {name} ({why})" for name, why in record.left_out.items()]


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
