"""The silent differences between PyTorch and JAX, Flax and Optax that the project knows, by id.

Everything else cites these ids. W: weights and modules; G: losses and gradients; O: optimizers and schedules; D: data
parallelism; A: gradient accumulation; J: arrays and programs; P: precision, and how closely two correct trainers agree.

Figures were measured on a CPU with torch 2.15, jax 0.10.2, flax 0.12.8 and optax 0.2.8, unless a note names others.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from port.errors import UsageError
from port.pairs.notes import (
    accumulation,
    data_parallel,
    losses_and_gradients,
    optimizers,
    precision,
    programs,
    sharded_state,
    weights_and_modules,
)
from port.pairs.notes.difference import Note

NOTES: tuple[Note, ...] = (
    *weights_and_modules.NOTES,
    *losses_and_gradients.NOTES,
    *optimizers.NOTES,
    *data_parallel.NOTES,
    *sharded_state.NOTES,
    *accumulation.NOTES,
    *programs.NOTES,
    *precision.NOTES,
)

_BY_ID = {note.id: note for note in NOTES}


def note(id: str) -> Note:
    """Return the note with this id.

    Raises:
        UsageError: an unknown id; the message names the nearest ones.
    """
    if id not in _BY_ID:
        nearest = sorted(_BY_ID, key=lambda there: -SequenceMatcher(None, id.upper(), there).ratio())
        raise UsageError(f"there is no note {id!r}; the nearest are {', '.join(nearest[:5])}")
    return _BY_ID[id]


__all__ = ["NOTES", "Note", "note"]
