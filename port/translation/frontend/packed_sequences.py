"""Packed sequences, for the time of an export: padded arrays beside their lengths, as JAX has them.

How long a packed sequence is depends on the lengths' values, which no traced program knows. Within `padded`, torch's
``pack_padded_sequence`` leaves the padding where it is, ``torch.nn.RNN``, ``LSTM`` and ``GRU`` are noted as called with
``lengths``, which their twins take, and ``pad_packed_sequence`` has nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
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
    in_order: bool
    """Whether torch would have left the batch in its order, and so have no indices of another."""

    def __new__(cls, data: Any, lengths: Any, *_: Any) -> PaddedSequence:
        return tuple.__new__(cls, (data, lengths, None, None))

    @property
    def lengths(self) -> Any:
        return self[1]

    @property
    def sorted_indices(self) -> Any:  # type: ignore[override]
        return None if self.in_order else _Order()

    @property
    def unsorted_indices(self) -> Any:  # type: ignore[override]
        return None if self.in_order else _Order()

    def _replace(self, **changes: Any) -> PaddedSequence:
        # What another makes of the data need not leave the padding zero.
        data, lengths = changes.get("data", self[0]), changes.get("batch_sizes", self[1])
        return _CLASSES[self.batch_first, False, self.in_order](data, lengths)


class _Order:
    """Stands for the order in which torch packs a batch; there is none, and it may only be handed on."""

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        raise NoPair("the order of a packed batch is read: here the batch keeps its own; leave the indices out")


# A class for each: torch takes such tuples apart and makes them again of their class and their members alone.
_CLASSES = {
    (batch_first, zeroed, in_order): type(
        "PaddedSequence",
        (PaddedSequence,),
        {"batch_first": batch_first, "zeroed": zeroed, "in_order": in_order},
    )
    for batch_first, zeroed, in_order in product((False, True), repeat=3)
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


def given_to_layer(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], PaddedSequence | None]:
    """A layer's arguments with the padded array in the place of a packed sequence, and that sequence, if there is one.

    Raises:
        NoPair: a layer that takes no packed sequence, or one that was packed before the export.
    """
    if "input" in kwargs and not args:
        args, kwargs = (kwargs["input"],), {name: kwargs[name] for name in kwargs if name != "input"}
    if not args or not _is_packed(args[0]):
        return args, kwargs, None
    if type(module) not in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU):
        raise NoPair(f"{type(module).__qualname__} is given a packed sequence; call pad_packed_sequence first")
    sequence = _recognised(args[0])
    return (_laid_out(sequence, bool(module.batch_first)), *args[1:]), kwargs, sequence


def given_by_layer(module: Any, results: tuple[Any, Any], sequence: PaddedSequence) -> tuple[Any, Any]:
    """What a recurrent layer gives, its outputs packed again, in the layout of what it was given."""
    outputs, state = results
    if module.batch_first != sequence.batch_first:
        outputs = outputs.transpose(0, 1)
    return _CLASSES[sequence.batch_first, True, sequence.in_order](outputs, sequence.lengths), state


def refuse_traced(module: torch.nn.Module, args: Any) -> None:
    """See that no recurrent layer whose code is traced is given a packed sequence: torch's own code would unpack it.

    Raises:
        NoPair: one is.
    """
    if isinstance(module, torch.nn.RNNBase) and any(map(_is_packed, pytree.tree_leaves(args, is_leaf=_is_packed))):
        raise NoPair(
            f"{type(module).__qualname__} is given a packed sequence, and is not torch's own layer, or shares weights "
            "with another; give it the padded sequence"
        )


def _recognised(sequence: Any) -> PaddedSequence:
    """A packed sequence, also one that the module's code has made of another one's parts.

    Raises:
        NoPair: one that was packed before the export.
    """
    if isinstance(sequence, PaddedSequence):
        return sequence
    told = getattr(sequence.batch_sizes, "of_packed", None)
    if told is None:
        raise NoPair(f"this is {_ELSEWHERE}")
    batch_first, in_order = told
    return _CLASSES[batch_first, False, in_order](sequence.data, sequence.batch_sizes)


def _laid_out(sequence: PaddedSequence, batch_first: bool) -> Any:
    return sequence.data if batch_first == sequence.batch_first else sequence.data.transpose(0, 1)


# %% What torch's functions do instead; named as theirs are, and with their arguments.


def _pack_padded_sequence(input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
    from port.translation.frontend.packed_sequences import pack

    return pack(input, lengths, batch_first, enforce_sorted)


def _pad_packed_sequence(
    sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> Any:
    from port.translation.frontend.packed_sequences import unpack

    return unpack(sequence, batch_first, padding_value, total_length)


def pack(input: Any, lengths: Any, batch_first: bool, enforce_sorted: bool) -> PaddedSequence:
    """In the place of ``pack_padded_sequence``."""
    # Of each sequence its own: who makes a packed sequence of another's parts hands its lengths on.
    lengths = torch.ops.aten.alias(torch.as_tensor(lengths, dtype=torch.int64, device="cpu"))
    lengths.of_packed = (bool(batch_first), bool(enforce_sorted))
    return _CLASSES[bool(batch_first), False, bool(enforce_sorted)](input, lengths)


def unpack(sequence: Any, batch_first: bool, padding_value: float, total_length: int | None) -> tuple[Any, Any]:
    """In the place of ``pad_packed_sequence``. Without ``total_length`` it is as long as what was packed.

    Raises:
        NoPair: a sequence that was packed before the export.
    """
    sequence = _recognised(sequence)
    data, lengths = _laid_out(sequence, batch_first), sequence.lengths
    time = 1 if batch_first else 0
    if not sequence.zeroed or padding_value != 0:
        inside = torch.arange(data.shape[time])[None] < lengths[:, None]
        inside = (inside if batch_first else inside.t()).reshape(*data.shape[:2], *(1 for _ in data.shape[2:]))
        data = torch.where(inside, data, torch.full((), padding_value, dtype=data.dtype))
    if total_length is not None and total_length != data.shape[time]:
        widths = (0, 0) * (data.ndim - 1 - time) + (0, total_length - data.shape[time])
        data = torch.nn.functional.pad(data, widths, value=padding_value)
    return data, lengths
