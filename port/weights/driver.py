"""The common path of all conversions: tensors, under the model's names, and the mapping that converts them.

`convert`, `load`, `to_flax` and `to_torch` open their inputs, `find` the conversion, and differ in what they do with
the resulting tensors: one at a time, each made when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from port.errors import NoPair, UsageError, WeightsMismatch
from port.mapping import Entry, Guide, Mapping, between
from port.weights.accounts import Accounts
from port.weights.carrying import Carrying
from port.weights.direction import wrong_way
from port.weights.options import Options
from port.weights.sources import Source
from port.weights.way_back import ABSENT, HIDDEN, WayBack, part_of, way_back
from port.weights.widening import blocks_said_beside, scales_in, widened, widening_entries, with_scales

WIDEN = (
    "There are eight-bit weights with scales beside them: widen='bfloat16' (--widen) makes one weight of both; "
    "otherwise the model needs a parameter for each"
)


@dataclass(frozen=True)
class Transfer:
    """Tensors and their targets; none of them has been read.

    Attributes:
        tensors: the source tensors, under the names that the mapping uses.
        mapping: from them to the other side, for the whole model.
        options: the user's options.
        back: what is known of the way from Flax to torch; None in the other direction.
        adapter: the config of the LoRA adapter, if the tensors are one alone; empty for a model's.
    """

    tensors: Source
    mapping: Mapping
    options: Options
    back: WayBack | None = None
    adapter: str = ""

    @property
    def entries(self) -> list[Entry]:
        """The mapping's entries whose tensors are present."""
        return list(self.mapping.present(self.tensors))

    @property
    def missing(self) -> dict[str, str]:
        """What the model may have but the tensors lack, with the consequence."""
        if self.back is not None:
            return self.back.missing
        there = set(self.entries)
        return {
            name: ABSENT if self.options.partial and not entry.optional else "not in the file: the model keeps its own"
            for entry in self.mapping.entries
            if entry not in there
            for name in entry.sources
        }

    def changed(self) -> list[str]:
        """Remarks on tensors that came back different from when they were converted."""
        return [] if self.back is None else self.back.changed()

    def accounts(self) -> Accounts:
        """Where the tensors are noted as they are converted; on the way back they are compared with the original."""
        if self.back is None:
            return Accounts(len(self.entries))
        return Accounts(len(self.entries), self.back.check, self.back.hash)

    def carrying(self, accounts: Accounts | None = None) -> Carrying:
        """The object that makes the tensors of the other side."""
        return Carrying(self.tensors, self.options.dtype, self.options.reverse, accounts)

    def carried(self, accounts: Accounts | None = None) -> Iterator[tuple[Entry, tuple[np.ndarray, ...]]]:
        """Yield each entry with its targets' tensors."""
        carrying = self.carrying(accounts)
        for entry in self.entries:
            yield entry, carrying.carry(entry)


def find(tensors: Source, options: Options) -> Transfer:
    """Determine how tensors are converted: from the models, the user's rules, or on the way back from the file itself.

    The names may be those of a wrapped model (DistributedDataParallel, torch.compile, AveragedModel).

    Args:
        tensors: torch's, or with ``options.reverse`` Flax's.
        options: the models, and the user's rules about names.

    Raises:
        WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message.
        NoPair: layers that no pair covers.
        UsageError: nothing determines the conversion.
    """
    if options.reverse:
        back = way_back(tensors, options)
        return Transfer(back.tensors, back.mapping, options, back)
    left, right = options.guides
    if left is None and right is None and not isinstance(options.rules, Mapping):
        raise UsageError(
            wrong_way(tensors, reverse=False)
            or "names alone do not identify the layers: pass a model, --torch MODULE:NAME or --flax MODULE:NAME (in "
            "Python torch=, flax= or target=)"
        )
    tensors = as_the_model_names_them(tensors, options)
    if options.widen is not None:
        return _widening(tensors, options, options.widen)
    names = tensors.guide("torch") if left is None and not options.partial else left
    try:
        mapping = between(names, right, rename=options.rules, fold=options.fold)
        (part_of(mapping, tensors)[0] if options.partial else mapping).check(tensors.shapes)
    except WeightsMismatch as error:
        if any(scale in str(error) for scale in scales_in(tensors)):
            raise WeightsMismatch(f"{error}\n{WIDEN}") from error
        raise
    return Transfer(tensors, mapping, options)


def _widening(tensors: Source, options: Options, dtype: str) -> Transfer:
    """Convert quantised weights with their scales: the mapping widens them, and its inverse quantises them."""
    said = blocks_said_beside(tensors)
    entries = widening_entries(tensors, dtype, said)
    plain = widened(tensors, dtype, said)
    found = find(plain, replace(options, widen=None))
    scales = [entry.sources[1] for entry in entries.values()]
    both = tensors.renamed({name: name for name in (*found.tensors, *scales)})
    both.left_out, both.unwrapped = found.tensors.left_out, tensors.unwrapped
    return replace(found, tensors=both, mapping=with_scales(found.mapping, entries))


def as_the_model_names_them(tensors: Source, options: Options) -> Source:
    """Rename torch's tensors as the model does: without wrappers' prefixes, and what no state dict has."""
    left, right = options.guides
    rules = options.rules
    if left is not None:
        return tensors.without_prefixes(tuple(left.leaves)).without(left.hidden, HIDDEN)
    if isinstance(rules, Mapping):
        return tensors.without_prefixes([source for entry in rules.entries for source in entry.sources])
    # They may be renamed to torch's names, or to Flax's paths.
    expected = torch_names(right) | set(right.leaves if right is not None and rules.rename else ())
    return tensors.without_prefixes(expected, rules)


def torch_names(flax: Guide | None) -> set[str]:
    """The torch names of a Flax model's tensors, as far as the model itself defines them; empty if it does not."""
    try:
        return {source for entry in between(None, flax).entries for source in entry.sources}
    except (NoPair, WeightsMismatch):  # a layer without a pair; one that is stacked with others for a scan
        return set()


def part_that_fits(tensors: Source, options: Options) -> int:
    """The number of tensors, if all fit and are only a part of the model; else 0."""
    left, right = options.guides
    try:
        named = as_the_model_names_them(tensors, options)
        part, lacking = part_of(between(left, right, rename=options.rules, fold=options.fold), named)
        part.check(named.shapes)
    except (WeightsMismatch, NoPair, UsageError):
        return 0
    return len(named) if part.entries and lacking else 0
