"""Lists options of torch layers that the Flax layers of a mapping do not support."""

from __future__ import annotations

from collections.abc import Iterable

from port.mapping.entry import Entry
from port.mapping.guide import Guide


def lacking(entries: Iterable[Entry], torch: Guide, flax: Guide) -> list[str]:
    """List what Flax's layers do differently from torch's options, one sentence each; the weights fit all the same.

    Args:
        entries: from torch to Flax.
        torch: a torch module's guide; one of names only lists nothing.
        flax: a Flax module's guide.
    """
    found: dict[str, None] = {}
    for entry in entries:
        theirs, ours = torch.owner(entry.sources[0]), flax.owner(entry.targets[0])
        if theirs is not None and ours is not None:
            for pair in [pair for pair in theirs.pairs if pair in ours.pairs][:1]:
                found |= {f"{theirs.path or 'the model'}: {line}": None for line in theirs.lacks(pair)}
    return list(found)
