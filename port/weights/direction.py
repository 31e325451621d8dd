"""Recognizes a file's framework by its names, if a conversion does not fit: the other direction may be meant."""

from __future__ import annotations

from port.weights.sources import COLLECTIONS, Source

TORCHS = {"weight", "running_mean", "running_var", "num_batches_tracked"}
FLAXS = {"kernel", "embedding", "scale"}
"""Endings of the one side's names that the other's never have (``port.nn`` has a few of torch's)."""


def wrong_way(tensors: Source, *, reverse: bool) -> str | None:
    """A hint for a user who chose the wrong direction; None if the names do not show that.

    Args:
        tensors: what did not fit.
        reverse: whether the direction was from Flax to torch.
    """
    ends = {name.removesuffix(".value").rpartition(".")[2] for name in tensors}
    tops = {name.partition(".")[0] for name in tensors}
    in_collections = "params" in tops and tops <= COLLECTIONS
    if not reverse and (tensors.is_flax or (ends & FLAXS and (in_collections or not ends & TORCHS))):
        return f"{tensors.origin}: these are Flax variables already: did you mean --reverse?"
    if reverse and not tensors.is_flax and ends & TORCHS and not ends & FLAXS:
        return f"{tensors.origin}: this is a torch state dict already: did you mean the way to Flax, without --reverse?"
    return None
