"""Dropout modules that draw the masks of the JAX side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from port.errors import UsageError
from port.random.draws import bernoulli, bernoulli_rows
from port.random.threefry import fold_in, key, split


def dropout_key(seed: int, step: int, *, x64: bool = False) -> Tensor:
    """One training step's key for shared_dropout, ``fold_in(key(seed), step)``: shape (2,), uint32."""
    return fold_in(key(seed, x64=x64), step)


@contextmanager
def shared_dropout(
    model: nn.Module,
    key: Tensor,
    *,
    channels_last: bool = False,
    x64: bool | None = None,
    rows: Tensor | Sequence[int] | None = None,
    batch_size: int | None = None,
) -> Iterator[None]:
    """Within it, the Dropout, Dropout1d, Dropout2d and Dropout3d modules of ``model`` draw the masks of nnx.Dropout.

    The JAX side hands each of its dropouts a key, not a stream of ``nnx.Rngs``, which gives other masks::

        key = jax.random.fold_in(jax.random.key(seed), step)  # dropout_key(seed, step)
        x = dropout(x, rngs=jax.random.fold_in(key, layer))

    ``layer`` counts those modules from 0 in the order of ``model.named_modules()``; one with two names counts once. If
    a module draws again within one context, its n-th repetition (n = 1, 2, …) has the key
    ``fold_in(fold_in(key, layer), n)``. In eval mode and at rate 0 nothing is drawn, or counted.

    Masks are drawn in the shape of the JAX side's activation. Dropout1d, 2d and 3d draw one number a channel,
    (N, 1, …, 1, C): there ``broadcast_dims=`` the spatial axes. Dropout draws the input's shape; under
    ``channels_last`` it takes every input of three or more dimensions as (N, C, *spatial) and draws (N, *spatial, C).
    After a flatten the elements are in CHW order here, whatever the JAX side's order is. ``x64`` says whether the JAX
    side runs with x64; None means: where the input is float64.

    A replica or a microbatch sees n samples of a whole batch of ``batch_size``, at the positions ``rows``, (n,), from
    0. Its masks are those rows of the whole batch's masks, and only they are drawn: with one key, the step's, all
    replicas together drop what one device with the whole batch drops. Inputs have the samples along their first
    dimension. The JAX side is `port.nn.SharedDropout`. UsageError: rows or batch_size alone, rows that are no
    positions in the batch, an input of another number of samples or without a batch dimension.

    PyTorch's generator is left alone. Dropouts whose masks cannot be shared raise UsageError if they would drop
    anything: AlphaDropout, FeatureAlphaDropout, those inside MultiheadAttention and recurrent layers, subclasses with
    their own forward. ``torch.nn.functional.dropout`` goes unseen. Activation checkpointing has to be off: its second
    forward would draw other masks. A compiled model recompiles in each context; a copy made within is a stock one.
    """
    part = _Part.of(rows, batch_size)
    _refuse_other_dropouts(model)
    layers = [m for m in model.modules() if isinstance(m, _DropoutNd) and type(m).forward in _KIND_BY_FORWARD]
    layer_keys = split(key, len(layers))  # the same hash: row by row fold_in(key, layer)

    outer_forwards = [vars(module).get("forward") for module in layers]
    try:
        for module, layer_key in zip(layers, layer_keys, strict=True):
            vars(module)["forward"] = _SharedForward(module, layer_key, channels_last, x64, part)
        yield
    finally:
        for module, forward in zip(layers, outer_forwards, strict=True):
            vars(module).pop("forward", None)
            if forward is not None:
                vars(module)["forward"] = forward


# Of an input's dimensions, by their number: how many lead up to the channels that drop whole, (N, C), or (C,) without
# a batch. PyTorch takes Dropout2d's three dimensions as (N, C, L).
_CHANNEL_DIMENSIONS = {nn.Dropout1d: {2: 1, 3: 2}, nn.Dropout2d: {3: 2, 4: 2}, nn.Dropout3d: {4: 1, 5: 2}}
_KIND_BY_FORWARD = {kind.forward: kind for kind in (nn.Dropout, *_CHANNEL_DIMENSIONS)}


def _refuse_other_dropouts(model: nn.Module) -> None:
    others = [
        f"{name or 'the model'} ({type(module).__name__})"
        for name, module in model.named_modules()
        if isinstance(module, _DropoutNd | nn.MultiheadAttention | nn.RNNBase)
        and type(module).forward not in _KIND_BY_FORWARD
        and module.training
        and (module.p if isinstance(module, _DropoutNd) else module.dropout) > 0
        and getattr(module, "num_layers", 2) > 1  # a recurrent layer drops between its layers
    ]
    if others:
        only = "dropout by Dropout, Dropout1d, Dropout2d and Dropout3d only"
        fix = "JAX cannot draw those masks; set the rate to 0 or call eval() on each"
        raise UsageError(f"expected {only}, but the model also drops by {', '.join(others)}; {fix}")


@dataclass(frozen=True)
class _Part:
    """The rows that a replica or a microbatch has of a whole batch."""

    rows: Tensor
    batch_size: int

    @classmethod
    def of(cls, rows: Tensor | Sequence[int] | None, batch_size: int | None) -> _Part | None:
        """None for a whole batch."""
        if rows is None and batch_size is None:
            return None
        if rows is None or batch_size is None:
            given, missing = ("rows", "batch_size") if batch_size is None else ("batch_size", "rows")
            raise UsageError(f"expected rows and batch_size together, but got {given} alone; give {missing} too")
        positions = torch.as_tensor(rows)
        if not positions.numel():
            positions = positions.to(torch.int64)  # an empty list comes as float32
        no_integers = positions.dtype == torch.bool or positions.is_floating_point() or positions.is_complex()
        if positions.ndim != 1 or no_integers:
            got = f"shape {tuple(positions.shape)} and {positions.dtype}"
            raise UsageError(f"rows are integers of shape (n,), but came with {got}; give positions in the whole batch")
        if positions.numel() and not 0 <= int(positions.min()) <= int(positions.max()) < batch_size:
            got = f"reach from {int(positions.min())} to {int(positions.max())}"
            raise UsageError(f"rows are positions in a batch of {batch_size}, from 0, but {got}; give the whole's size")
        return cls(positions, batch_size)

    def whole(self, shape: torch.Size, input: Tensor) -> tuple[int, ...]:
        """The shape of the whole batch's mask, for the one of this part's."""
        if input.shape[:1] != self.rows.shape:
            got = f"{tuple(input.shape)}; give each sample's row, and the samples first"
            raise UsageError(f"expected inputs of {len(self.rows)} samples, as rows has, but got {got}")
        return self.batch_size, *shape[1:]


@dataclass
class _SharedForward:
    """Stands in for one dropout module's forward within shared_dropout."""

    module: _DropoutNd
    key: Tensor
    channels_last: bool
    x64: bool | None
    part: _Part | None
    draws: int = 0

    def __call__(self, input: Tensor) -> Tensor:
        rate = float(self.module.p)
        if not self.module.training or rate == 0:
            return type(self.module).forward(self.module, input)
        keep = 1.0 - rate
        # At rate 1 the mask alone clears everything: a division by 0 would leave NaN in the gradient.
        scaled = input if rate == 1 else _divided(input, keep)
        dropped = torch.where(self._mask(input, keep), scaled, 0.0)
        return input.copy_(dropped) if self.module.inplace else dropped

    def _mask(self, input: Tensor, keep: float) -> Tensor:
        """True where ``input`` is kept, in a shape that broadcasts to it."""
        kind = _KIND_BY_FORWARD[type(self.module).forward]
        if kind in _CHANNEL_DIMENSIONS:
            ranks = _CHANNEL_DIMENSIONS[kind]
            if input.ndim not in ranks:
                takes = " or ".join(map(str, ranks))
                raise UsageError(f"{kind.__name__} takes {takes} dimensions, but got {tuple(input.shape)}; use Dropout")
            channels = input.shape[: ranks[input.ndim]]
            if self.part is not None and len(channels) == 1:
                got = f"{tuple(input.shape)} for {kind.__name__}, which has none"
                raise UsageError(f"rows need inputs with a batch dimension, but got {got}; add one")
            return self._drawn(channels, input, keep).reshape(channels + (1,) * (input.ndim - len(channels)))
        if self.channels_last and input.ndim > 2:
            return self._drawn(input.movedim(1, -1).shape, input, keep).movedim(-1, 1)
        return self._drawn(input.shape, input, keep)

    def _drawn(self, shape: torch.Size, input: Tensor, keep: float) -> Tensor:
        """The next mask of that shape, on the input's device."""
        x64 = input.dtype == torch.float64 if self.x64 is None else self.x64
        key = (fold_in(self.key, self.draws) if self.draws else self.key).to(input.device)
        self.draws += 1
        if self.part is None:
            return bernoulli(key, keep, shape, x64=x64)
        return bernoulli_rows(key, keep, self.part.whole(shape, input), self.part.rows, x64=x64)

    def __reduce__(self) -> tuple[object, ...]:
        # What a copy or a pickle of the module holds in its place: the copy's own stock forward.
        return getattr, (self.module, "forward")


def _divided(input: Tensor, keep: float) -> Tensor:
    """``input / keep`` to the last bit, as XLA computes it in nnx.Dropout.

    XLA multiplies by the reciprocal, rounded to the input's dtype; only in bfloat16 it divides. ``keep`` is rounded
    as well, hence a tensor: how PyTorch divides by a Python float depends on the device.
    """
    divisor = torch.full((), keep, dtype=input.dtype, device=input.device)
    return input / divisor if input.dtype == torch.bfloat16 else input * divisor.reciprocal()
