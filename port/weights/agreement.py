"""Agreement between JAX processes: all continue or none; an error in one is reported by all."""

from __future__ import annotations

import numpy as np

from port import errors
from port.errors import BrokenWeights, PortError, WeightsMismatch


def agree(error: Exception | None, seen: str) -> None:
    """Continue if no process found anything wrong, and all see the same. Every process calls this at the same point.

    Args:
        error: the error of this process, if any.
        seen: what must be the same for all processes.

    Raises:
        PortError: the errors of this or other processes, with their numbers; for a single process, its own error.
        WeightsMismatch: the processes do not see the same.
    """
    import jax

    if jax.process_count() == 1:
        if error is not None:
            raise error
        return
    reports = [text.partition(": ") for text in _from_all("" if error is None else f"{type(error).__name__}: {error}")]
    wrong = {number: (kind, text) for number, (kind, _, text) in enumerate(reports) if kind}
    if wrong:
        lines = [f"process {number} of {len(reports)}: {_line(kind, text)}" for number, (kind, text) in wrong.items()]
        raised = _class(next(iter(wrong.values()))[0]) or BrokenWeights
        raise raised("nothing is loaded, in any process:\n  " + "\n  ".join(lines)) from error
    views = _from_all(seen)
    if len(set(views)) > 1:
        different = [str(number) for number, view in enumerate(views) if view != views[0]]
        raise WeightsMismatch(
            f"process {', '.join(different)} sees other weights than process 0: all must read the same files. "
            "Nothing is loaded, in any process"
        )


def _class(kind: str) -> type[PortError] | None:
    """One of our error classes by name; None for others."""
    found = getattr(errors, kind, None)
    return found if isinstance(found, type) and issubclass(found, PortError) else None


def _line(kind: str, text: str) -> str:
    return text if _class(kind) is not None else f"{kind}: {text}"


def _from_all(text: str) -> list[str]:
    """A text of each process."""
    from jax.experimental import multihost_utils

    own = np.frombuffer(text.encode(), np.uint8)
    # What is gathered has one size everywhere.
    lengths = np.asarray(multihost_utils.process_allgather(np.array([own.size], np.int32))).ravel()
    padded = np.zeros(max(1, int(lengths.max())), np.uint8)
    padded[: own.size] = own
    rows = np.asarray(multihost_utils.process_allgather(padded)).reshape(len(lengths), -1)
    return [row[:length].tobytes().decode() for row, length in zip(rows, lengths, strict=True)]
