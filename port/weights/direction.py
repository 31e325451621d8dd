"""Whose names a file's are, where a conversion the one way does not fit: it may have been meant the other way."""

from __future__ import annotations

from port.weights.sources import COLLECTIONS, Source

TORCHS = {"weight", "running_mean", "running_var", "num_batches_tracked"}
FLAXS = {"kernel", "embedding", "scale"}
"""What ends the names of the one and never those of the other (``port.nn`` has a few of torch's)."""


def wrong_way(tensors: Source, *, reverse: bool) -> str | None:
    """The sentence for a person who took the wrong direction; None where the names do not tell that.

    Args:
        tensors: what did not fit.
        reverse: from Flax to torch was asked for.
    """
    ends = {name.removesuffix(".value").rpartition(".")[2] for name in tensors}
    tops = {name.partition(".")[0] for name in tensors}
    in_collections = "params" in tops and tops <= COLLECTIONS
    if not reverse and (tensors.is_flax or (ends & FLAXS and (in_collections or not ends & TORCHS))):
        return f"{tensors.origin}: these are Flax variables already: did you mean --reverse?"
    if reverse and not tensors.is_flax and ends & TORCHS and not ends & FLAXS:
        return f"{tensors.origin}: this is a torch state dict already: did you mean the way to Flax, without --reverse?"
    return None
