"""The one way that weights take: tensors, under the model's names, and the mapping that they go through.

`convert`, `load`, `to_flax` and `to_torch` open what they are given, `find` how it is carried over, and differ in what
they do with the tensors that come out: one at a time, each made when it is asked for.
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
    "There are weights of eight bits with scales beside them: widen='bfloat16' (--widen) makes one weight of both; "
    "else the model is to have a place for each"
)


@dataclass(frozen=True)
class Transfer:
    """Tensors and where they go; none of them has been read.

    Attributes:
        tensors: what is there, under the names that the mapping takes.
        mapping: from them to the other side, for the whole model.
        options: what was asked for.
        back: what is known of the way from Flax to torch; None the other way.
        adapter: the config of the LoRA adapter that the tensors are, by themselves; empty where they are a model's.
    """

    tensors: Source
    mapping: Mapping
    options: Options
    back: WayBack | None = None
    adapter: str = ""

    @property
    def entries(self) -> list[Entry]:
        """The mapping's entries whose tensors are there."""
        return list(self.mapping.present(self.tensors))

    @property
    def missing(self) -> dict[str, str]:
        """What the model may have and the tensors have not, with what happens then."""
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
        """What a person should know of the tensors that came back otherwise than they were converted."""
        return [] if self.back is None else self.back.changed()

    def accounts(self) -> Accounts:
        """Where the tensors are noted as they go over; on the way back they are compared with those that were
        converted."""
        if self.back is None:
            return Accounts(len(self.entries))
        return Accounts(len(self.entries), self.back.check, self.back.hash)

    def carrying(self, accounts: Accounts | None = None) -> Carrying:
        """What makes the tensors of the other side."""
        return Carrying(self.tensors, self.options.dtype, self.options.reverse, accounts)

    def carried(self, accounts: Accounts | None = None) -> Iterator[tuple[Entry, tuple[np.ndarray, ...]]]:
        """Each entry with its targets' tensors, made in its turn."""
        carrying = self.carrying(accounts)
        for entry in self.entries:
            yield entry, carrying.carry(entry)


def find(tensors: Source, options: Options) -> Transfer:
    """Find how tensors go over: as the models tell, as a person says, or on the way back as the file itself says.

    The names may be those of a wrapped model (DistributedDataParallel, torch.compile, AveragedModel).

    Args:
        tensors: torch's, or with ``options.reverse`` Flax's.
        options: the models, and what a person says of names.

    Raises:
        WeightsMismatch: everything that is missing, unexpected or mis-shaped, in one message.
        NoPair: layers that no pair speaks of.
        UsageError: nothing tells how they go over.
    """
    if options.reverse:
        back = way_back(tensors, options)
        return Transfer(back.tensors, back.mapping, options, back)
    left, right = options.guides
    if left is None and right is None and not isinstance(options.rules, Mapping):
        raise UsageError(
            wrong_way(tensors, reverse=False)
            or "names alone do not tell the layers: give a model to go by: --torch module:name, or --flax module:name; "
            "target="
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
    """How quantised weights go over with their scales: the mapping widens them, and its inverse quantises them."""
    said = blocks_said_beside(tensors)
    entries = widening_entries(tensors, dtype, said)
    plain = widened(tensors, dtype, said)
    found = find(plain, replace(options, widen=None))
    scales = [entry.sources[1] for entry in entries.values()]
    both = tensors.renamed({name: name for name in (*found.tensors, *scales)})
    both.left_out, both.unwrapped = found.tensors.left_out, tensors.unwrapped
    return replace(found, tensors=both, mapping=with_scales(found.mapping, entries))


def as_the_model_names_them(tensors: Source, options: Options) -> Source:
    """Torch's tensors without what wrappers put before their names, and without what no state dict holds."""
    left, right = options.guides
    rules = options.rules
    if left is not None:
        return tensors.without_prefixes(tuple(left.leaves)).without(left.hidden, HIDDEN)
    if isinstance(rules, Mapping):
        return tensors.without_prefixes([source for entry in rules.entries for source in entry.sources])
    # They may be renamed to what torch would call them, or to Flax's paths.
    expected = torch_names(right) | set(right.leaves if right is not None and rules.rename else ())
    return tensors.without_prefixes(expected, rules)


def torch_names(flax: Guide | None) -> set[str]:
    """What a Flax model's tensors are called in torch, as far as the model itself tells; empty if it does not."""
    try:
        return {source for entry in between(None, flax).entries for source in entry.sources}
    except (NoPair, WeightsMismatch):  # a layer without a pair; one that is stacked with others for a scan
        return set()


def part_that_fits(tensors: Source, options: Options) -> int:
    """How many tensors there are, if all fit and are a part of the model alone; else 0."""
    left, right = options.guides
    try:
        named = as_the_model_names_them(tensors, options)
        part, lacking = part_of(between(left, right, rename=options.rules, fold=options.fold), named)
        part.check(named.shapes)
    except (WeightsMismatch, NoPair, UsageError):
        return 0
    return len(named) if part.entries and lacking else 0
