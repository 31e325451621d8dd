"""Packed sequences, for the time of an export: padded arrays beside their lengths, as JAX has them.

How long a packed sequence is depends on the lengths' values, which no traced program knows. Within `padded`, torch's
``pack_padded_sequence`` leaves the padding where it is, ``torch.nn.RNN``, ``LSTM`` and ``GRU`` are noted as called with
``lengths``, which their twins take, and ``pad_packed_sequence`` has nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.utils import rnn
from torch.utils import _pytree as pytree

from port.errors import NoPair


class PaddedSequence(rnn.PackedSequence):
    """Stands for a packed sequence: ``data`` is padded, ``batch_sizes`` are the lengths, in the batch's own order."""

    batch_first: bool
    """Whether ``data`` is (N, L, …), not (L, N, …)."""
    zeroed: bool
    """Whether it is zero past each sequence's end."""

    def __new__(cls, data: Any, lengths: Any, *_: Any) -> PaddedSequence:
        return tuple.__new__(cls, (data, lengths, None, None))


class _BatchFirst(PaddedSequence):
    batch_first, zeroed = True, False


class _TimeFirst(PaddedSequence):
    batch_first, zeroed = False, False


class _BatchFirstZeroed(PaddedSequence):
    batch_first, zeroed = True, True


class _TimeFirstZeroed(PaddedSequence):
    batch_first, zeroed = False, True


# A class for each: torch takes such tuples apart and makes them again of their class and their members alone.
_CLASSES = {
    (cls.batch_first, cls.zeroed): cls for cls in (_BatchFirst, _TimeFirst, _BatchFirstZeroed, _TimeFirstZeroed)
}


@contextmanager
def padded() -> Iterator[None]:
    """Within it, sequences are packed as `PaddedSequence`, by whatever name a module calls torch's functions."""
    functions = {rnn.pack_padded_sequence: _pack_padded_sequence, rnn.pad_packed_sequence: _pad_packed_sequence}
    before = {function: function.__code__ for function in functions}
    try:
        for function, other in functions.items():
            function.__code__ = other.__code__
        yield
    finally:
        for function, code in before.items():
            function.__code__ = code


def refuse_packed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """See that no input is a packed sequence.

    Raises:
        NoPair: one is.
    """
    if any(map(_is_packed, pytree.tree_leaves((args, kwargs), is_leaf=_is_packed))):
        raise NoPair(f"an input is {_ELSEWHERE}")


def _is_packed(leaf: Any) -> bool:
    return isinstance(leaf, rnn.PackedSequence)


_ELSEWHERE = (
    "a packed sequence, and how long that is depends on values, which a traced JAX program does not know: give the "
    "module the padded sequence and the lengths, and call pack_padded_sequence in its forward"
)


def given_to_layer(module: torch.nn.Module, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    """A layer's arguments with the padded array in the place of a packed sequence, and the lengths; else None.

    Raises:
        NoPair: a layer that takes no packed sequence, or one that was packed before the export.
    """
    if not args or not isinstance(args[0], rnn.PackedSequence):
        return args, None
    if not isinstance(module, torch.nn.RNN | torch.nn.LSTM | torch.nn.GRU):
        raise NoPair(
            f"{type(module).__qualname__} is given a packed sequence; unpack it first, with pad_packed_sequence"
        )
    sequence = _recognised(args[0])
    return (_laid_out(sequence, module.batch_first), *args[1:]), sequence.batch_sizes


def given_by_layer(module: Any, results: tuple[Any, Any], lengths: Any) -> tuple[Any, Any]:
    """What a recurrent layer gives, its outputs packed again."""
    outputs, state = results
    return _made(outputs, lengths, module.batch_first, zeroed=True), state


def _made(data: Any, lengths: Any, batch_first: bool, *, zeroed: bool) -> PaddedSequence:
    # Who takes a packed sequence apart and makes another of its parts hands the lengths on.
    lengths.of_batch_first = batch_first
    return _CLASSES[batch_first, zeroed](data, lengths)


def _recognised(sequence: Any) -> PaddedSequence:
    """A packed sequence, also one that the module's code has made of another one's parts.

    Raises:
        NoPair: one that was packed before the export.
    """
    if isinstance(sequence, PaddedSequence):
        return sequence
    batch_first = getattr(sequence.batch_sizes, "of_batch_first", None)
    if batch_first is None:
        raise NoPair(f"this is {_ELSEWHERE}")
    return _CLASSES[batch_first, False](sequence.data, sequence.batch_sizes)


def _laid_out(sequence: PaddedSequence, batch_first: bool) -> Any:
    return sequence.data if batch_first == sequence.batch_first else sequence.data.transpose(0, 1)


# %% What torch's functions do instead; named as theirs are, and with their arguments.


def _pack_padded_sequence(input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
    from port.translation.packing import pack

    return pack(input, lengths, batch_first)


def _pad_packed_sequence(
    sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> Any:
    from port.translation.packing import unpack

    return unpack(sequence, batch_first, padding_value, total_length)


def pack(input: Any, lengths: Any, batch_first: bool) -> PaddedSequence:
    """In the place of ``pack_padded_sequence``."""
    return _made(input, torch.as_tensor(lengths, dtype=torch.int64, device="cpu"), bool(batch_first), zeroed=False)


def unpack(sequence: Any, batch_first: bool, padding_value: float, total_length: int | None) -> tuple[Any, Any]:
    """In the place of ``pad_packed_sequence``. Without ``total_length`` it is as long as what was packed.

    Raises:
        NoPair: a sequence that was packed before the export.
    """
    sequence = _recognised(sequence)
    data, lengths = _laid_out(sequence, batch_first), sequence.batch_sizes
    time = 1 if batch_first else 0
    if not sequence.zeroed or padding_value != 0:
        inside = torch.arange(data.shape[time])[None] < lengths[:, None]
        inside = (inside if batch_first else inside.t()).reshape(*data.shape[:2], *(1 for _ in data.shape[2:]))
        data = torch.where(inside, data, padding_value)
    if total_length is not None and total_length != data.shape[time]:
        widths = (0, 0) * (data.ndim - 1 - time) + (0, total_length - data.shape[time])
        data = torch.nn.functional.pad(data, widths, value=padding_value)
    return data, lengths
