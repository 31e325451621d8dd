"""Trace packed sequences as padded arrays with their lengths, the form that JAX uses.

The length of a packed sequence depends on the lengths' values, which a traced program does not know. Within `padded`,
``pack_padded_sequence`` keeps the padding, calls of ``torch.nn.RNN``, ``LSTM`` and ``GRU`` are recorded with the
argument ``lengths`` of their twins, and ``pad_packed_sequence`` has almost nothing left to do.
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
    """Stand-in for a packed sequence: ``data`` is padded, ``batch_sizes`` are the lengths, in the batch's own order."""

    batch_first: bool
    """Whether ``data`` is (N, L, …), not (L, N, …)."""
    zeroed: bool
    """Whether it is zero past each sequence's end."""
    in_order: bool
    """Whether torch would have kept the batch's order (``enforce_sorted``), so that there are no sort indices."""

    def __new__(cls, data: Any, lengths: Any, *_: Any) -> PaddedSequence:
        return tuple.__new__(cls, (data, lengths, None, None))

    @property
    def lengths(self) -> Any:
        """The lengths of the sequences, (N,)."""
        return self[1]

    @property
    def sorted_indices(self) -> Any:  # type: ignore[override]
        return None if self.in_order else _Order()

    @property
    def unsorted_indices(self) -> Any:  # type: ignore[override]
        return None if self.in_order else _Order()

    def _replace(self, **changes: Any) -> PaddedSequence:
        # New data need not be zero in the padding.
        data, lengths = changes.get("data", self[0]), changes.get("batch_sizes", self[1])
        return _CLASSES[self.batch_first, False, self.in_order](data, lengths)


class _Order:
    """Stand-in for torch's sort indices: the batch is never sorted, so they may be passed on but not read."""

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        raise NoPair("the order of a packed batch is read: here the batch is not sorted; leave the indices out")


# A class for each combination: torch flattens such tuples and rebuilds them from their class and members only.
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
    """Pack sequences as `PaddedSequence` within the context, by whatever name a module imported torch's functions."""
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
    """Refuse packed sequences among the inputs.

    Raises:
        NoPair: an input is one.
    """
    if any(map(_is_packed, pytree.tree_leaves((args, kwargs), is_leaf=_is_packed))):
        raise NoPair(f"an input is {_PACKED_OUTSIDE}")


def _is_packed(leaf: Any) -> bool:
    return isinstance(leaf, rnn.PackedSequence)


_PACKED_OUTSIDE = (
    "a packed sequence, whose length depends on values that a traced JAX program does not know: pass the padded "
    "sequence and the lengths to the module, and call pack_padded_sequence in its forward"
)


def unpacked_arguments(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], PaddedSequence | None]:
    """Replace a packed sequence among a layer's arguments by its padded array.

    Returns:
        The positional arguments, the keyword arguments, and the packed sequence; None where there was none.

    Raises:
        NoPair: the layer accepts no packed sequence, or the sequence was packed outside the module.
    """
    if "input" in kwargs and not args:
        args, kwargs = (kwargs["input"],), {name: kwargs[name] for name in kwargs if name != "input"}
    if not args or not _is_packed(args[0]):
        return args, kwargs, None
    if type(module) not in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU):
        raise NoPair(f"{type(module).__qualname__} receives a packed sequence; call pad_packed_sequence first")
    sequence = _recognised(args[0])
    return (_laid_out(sequence, bool(module.batch_first)), *args[1:]), kwargs, sequence


def repacked_results(module: Any, results: tuple[Any, Any], sequence: PaddedSequence) -> tuple[Any, Any]:
    """Pack a recurrent layer's outputs again, in the layout of its input; return them and the final state."""
    outputs, state = results
    if module.batch_first != sequence.batch_first:
        outputs = outputs.transpose(0, 1)
    return _CLASSES[sequence.batch_first, True, sequence.in_order](outputs, sequence.lengths), state


def refuse_traced(module: torch.nn.Module, args: Any) -> None:
    """Refuse a packed sequence as input of a recurrent layer whose code is traced: torch's own code would unpack it.

    Raises:
        NoPair: the layer receives one.
    """
    if isinstance(module, torch.nn.RNNBase) and any(map(_is_packed, pytree.tree_leaves(args, is_leaf=_is_packed))):
        raise NoPair(
            f"{type(module).__qualname__} receives a packed sequence, and is not torch's own layer, or shares weights "
            "with another; pass it the padded sequence"
        )


def _recognised(sequence: Any) -> PaddedSequence:
    """Return a packed sequence as a `PaddedSequence`, also one that the module rebuilt from another's fields.

    Raises:
        NoPair: the sequence was packed outside the module.
    """
    if isinstance(sequence, PaddedSequence):
        return sequence
    flags = getattr(sequence.batch_sizes, "of_packed", None)
    if flags is None:
        raise NoPair(f"this is {_PACKED_OUTSIDE}")
    batch_first, in_order = flags
    return _CLASSES[batch_first, False, in_order](sequence.data, sequence.batch_sizes)


def _laid_out(sequence: PaddedSequence, batch_first: bool) -> Any:
    return sequence.data if batch_first == sequence.batch_first else sequence.data.transpose(0, 1)


# %% Replacements of torch's functions, with their names and signatures.


def _pack_padded_sequence(input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
    from port.translation.frontend.packed_sequences import pack

    return pack(input, lengths, batch_first, enforce_sorted)


def _pad_packed_sequence(
    sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> Any:
    from port.translation.frontend.packed_sequences import unpack

    return unpack(sequence, batch_first, padding_value, total_length)


def pack(input: Any, lengths: Any, batch_first: bool, enforce_sorted: bool) -> PaddedSequence:
    """Replace ``pack_padded_sequence``: keep the padded array and its lengths.

    Args:
        input: (L, N, …), or (N, L, …) if ``batch_first``.
        lengths: (N,).
        batch_first: whether the batch is the first axis.
        enforce_sorted: whether the batch is sorted by length already.
    """
    # A tensor object of its own: a packed sequence rebuilt from another's fields passes its lengths on.
    lengths = torch.ops.aten.alias(torch.as_tensor(lengths, dtype=torch.int64, device="cpu"))
    lengths.of_packed = (bool(batch_first), bool(enforce_sorted))
    return _CLASSES[bool(batch_first), False, bool(enforce_sorted)](input, lengths)


def unpack(sequence: Any, batch_first: bool, padding_value: float, total_length: int | None) -> tuple[Any, Any]:
    """Replace ``pad_packed_sequence``; without ``total_length`` the result is as long as the packed array.

    Returns:
        The padded array, (L, N, …), or (N, L, …) if ``batch_first``, and the lengths, (N,).

    Raises:
        NoPair: the sequence was packed outside the module.
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
