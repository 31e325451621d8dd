"""jax's random bits in PyTorch, so that both sides of a comparison drop the same activations.

jax draws with Threefry-2x32 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011), a hash
of a key and a counter, with no state. The functions here are named as in ``jax.random`` and return the same bits, on
any device. The formulas are those of jax's ``jax/_src/random/threefry2x32.py``, ``prng.py`` and ``core.py`` with
``jax_threefry_partitionable=True``, the default since jax 0.5; the older, non-partitionable mode is not reproduced.

``x64`` says whether the JAX side runs with ``jax_enable_x64``. It is part of a draw's definition: jax then draws in
64 bits by default, and those are other numbers, not the same ones to more digits.

Every ``key`` is a jax key's raw data: shape (2,), dtype ``torch.uint32``, what
``torch.from_numpy(numpy.array(jax.random.key_data(key)))`` gives. What is drawn lies on its key's device. Seeds,
keys, numbers and dtypes that jax would refuse raise UsageError.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from port.errors import UsageError

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_LOW_32 = 0xFFFFFFFF


def _threefry2x32(key: Tensor, counter: Tensor) -> tuple[Tensor, Tensor]:
    """The hash of each int32 in ``counter``, any shape, as two int32 tensors of that shape.

    int32 stands for uint32, for which PyTorch has no sums and shifts; it wraps around to the same bits.
    """
    if key.dtype != torch.uint32 or key.shape != (2,):
        raise UsageError(
            f"a key has shape (2,) and dtype torch.uint32, but came with {tuple(key.shape)} and {key.dtype}; "
            "make it with key, fold_in or split, and use torch.vmap over several"
        )
    first, second = key.view(torch.int32).unbind()
    schedule = (first, second, first ^ second ^ _PARITY)

    x, y = first + torch.zeros_like(counter), second + counter
    for block in range(5):
        for distance in _ROTATIONS[block % 2]:
            x += y
            # >> copies an int32's sign bit: the mask leaves only the bits that come around.
            around = (y >> (32 - distance)).bitwise_and_((1 << distance) - 1)
            y <<= distance
            y |= around
            y ^= x
        x += schedule[(block + 1) % 3]
        y += schedule[(block + 2) % 3] + (block + 1)
    return x, y


def _hash_of_positions(key: Tensor, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Two int32 for each element: the hash of its row-major position."""
    size = math.prod(shape)
    if size >= 2**31:
        raise UsageError(f"one draw has fewer than 2**31 elements, but {tuple(shape)} has {size}; split the key")
    x, y = _threefry2x32(key, torch.arange(size, dtype=torch.int32, device=key.device))
    return x.reshape(shape), y.reshape(shape)


def key(seed: int, *, x64: bool = False, device: torch.device | str | None = None) -> Tensor:
    """``jax.random.key_data(jax.random.key(seed))``: shape (2,), uint32.

    ``seed`` is any int from −2**63 to 2**63 − 1; with ``x64`` off only its lowest 32 bits count, as in jax.
    """
    if not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise UsageError(f"a seed is an int from -2**63 to 2**63 - 1, but got {seed!r}; pass one of those")
    words = [(seed >> 32) & _LOW_32 if x64 else 0, seed & _LOW_32]
    return torch.tensor(words, dtype=torch.uint32, device=device)


def fold_in(key: Tensor, data: int | Tensor) -> Tensor:
    """``jax.random.fold_in``: another key, shape (2,), uint32, from a key and a number such as a step.

    ``data`` is an int from 0 to 2**32 − 1, or an integer tensor of shape (), whose lowest 32 bits count.
    """
    one_integer = isinstance(data, Tensor) and data.shape == () and not (data.is_floating_point() or data.is_complex())
    if not one_integer and not (isinstance(data, int) and 0 <= data < 2**32):
        raise UsageError(f"fold_in takes one int from 0 to 2**32 - 1, but got {data!r}; use torch.vmap over several")
    counter = torch.as_tensor(data, device=key.device).to(torch.int64).to(torch.int32)
    return torch.stack(_threefry2x32(key, counter)).view(torch.uint32)


def split(key: Tensor, num: int | tuple[int, ...] = 2) -> Tensor:
    """``jax.random.split``: ``num`` new keys, shape (num, 2) or (*num, 2), uint32."""
    shape = num if isinstance(num, tuple) else (num,)
    return torch.stack(_hash_of_positions(key, shape), dim=-1).view(torch.uint32)


def bits(key: Tensor, shape: Sequence[int] = (), dtype: torch.dtype | None = None, *, x64: bool = False) -> Tensor:
    """``jax.random.bits``: random unsigned integers of that shape.

    ``dtype`` is uint8, uint16, uint32 or uint64; without it uint32, or uint64 under ``x64``. A dtype that is
    given decides alone: uint64 is what jax draws with x64 on.
    """
    dtype = dtype or (torch.uint64 if x64 else torch.uint32)
    signed = {torch.uint8: torch.int8, torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
    if dtype not in signed:
        raise UsageError(f"bits come as torch.uint8, uint16, uint32 or uint64, but dtype is {dtype}; choose one")
    return _signed_bits(key, shape, 8 * dtype.itemsize).to(signed[dtype]).view(dtype)


def _signed_bits(key: Tensor, shape: Sequence[int], width: int) -> Tensor:
    """Random bits: 64 in an int64, or the lowest ``width`` of an int32."""
    x, y = _hash_of_positions(key, shape)
    return (x.to(torch.int64) << 32) | (y.to(torch.int64) & _LOW_32) if width == 64 else x ^ y


_MANTISSA_BITS = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23, torch.float64: 52}


def uniform(
    key: Tensor,
    shape: Sequence[int] = (),
    dtype: torch.dtype | None = None,
    minval: float | Tensor = 0.0,
    maxval: float | Tensor = 1.0,
    *,
    x64: bool = False,
) -> Tensor:
    """``jax.random.uniform``: numbers in [minval, maxval) of that shape.

    ``dtype`` is float16, bfloat16, float32 or float64; without it float32, or float64 under ``x64``. A dtype that is
    given decides alone: float64 is what jax draws with x64 on. Other ranges than [0, 1) are scaled as XLA compiles it,
    in a fused multiply-add; one of some 10**8 such draws may differ in its last bit.
    """
    dtype = dtype or (torch.float64 if x64 else torch.float32)
    if dtype not in _MANTISSA_BITS:
        raise UsageError(f"uniform draws {', '.join(map(str, _MANTISSA_BITS))}, but dtype is {dtype}; choose one")
    kept = _MANTISSA_BITS[dtype]
    drawn = 8 * dtype.itemsize if kept >= 8 else 8  # as in jax: bfloat16 takes its 7 bits from a byte
    mantissa = (_signed_bits(key, shape, drawn) >> (drawn - kept)) & ((1 << kept) - 1)
    # jax sets these bits under the exponent of 1 and subtracts 1: the same number, and neither way rounds.
    unit = mantissa.to(dtype) * 2.0**-kept
    if isinstance(minval, float) and isinstance(maxval, float) and (minval, maxval) == (0.0, 1.0):
        return unit
    low, high = (torch.as_tensor(edge, dtype=dtype, device=key.device) for edge in (minval, maxval))
    return torch.maximum(low, _multiply_add(unit, high - low, low))


def _multiply_add(unit: Tensor, span: Tensor, low: Tensor) -> Tensor:
    """unit × span + low, rounded once as by XLA's fused multiply-add; XLA fuses none in bfloat16."""
    if unit.dtype == torch.bfloat16:
        return unit * span + low
    if unit.dtype != torch.float64:
        wide = torch.float32 if unit.dtype == torch.float16 else torch.float64
        return (unit.to(wide) * span.to(wide) + low.to(wide)).to(unit.dtype)
    # Nothing is wider than float64: add at the end what the product (Dekker) and the sum (Knuth) rounded off.
    shifted_unit, shifted_span = unit * (2.0**27 + 1), span * (2.0**27 + 1)
    a, c = shifted_unit - (shifted_unit - unit), shifted_span - (shifted_span - span)
    b, d = unit - a, span - c
    product = unit * span
    total = product + low
    added = total - product
    return total + ((product - (total - added)) + (low - added) + (a * c - product + a * d + b * c + b * d))


def bernoulli(key: Tensor, p: float | Tensor = 0.5, shape: Sequence[int] | None = None, *, x64: bool = False) -> Tensor:
    """``jax.random.bernoulli``: True with probability ``p``; bool, of ``shape`` or else of p's own shape.

    jax compares uniforms in p's dtype: a Python float's is float32, or float64 under ``x64``; a tensor has its own, so
    that a float64 one stands for a JAX side with x64 on. RuntimeError where ``p`` does not broadcast to ``shape``.
    """
    if isinstance(p, float):
        p = torch.full((), p, dtype=torch.float64 if x64 else torch.float32)
    if not isinstance(p, Tensor) or not p.is_floating_point():
        raise UsageError(f"p is a float or a floating tensor, but got {p!r}; write 1.0 for 1")
    probability = p.to(key.device).expand(p.shape if shape is None else tuple(shape))
    return uniform(key, probability.shape, p.dtype) < probability


def dropout_key(seed: int, step: int, *, x64: bool = False) -> Tensor:
    """One training step's key for shared_dropout, ``fold_in(key(seed), step)``: shape (2,), uint32."""
    return fold_in(key(seed, x64=x64), step)


@contextmanager
def shared_dropout(
    model: nn.Module, key: Tensor, *, channels_last: bool = False, x64: bool | None = None
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

    PyTorch's generator is left alone. Dropouts whose masks cannot be shared raise UsageError if they would drop
    anything: AlphaDropout, FeatureAlphaDropout, those inside MultiheadAttention and recurrent layers, subclasses with
    their own forward. ``torch.nn.functional.dropout`` goes unseen. Activation checkpointing has to be off: its second
    forward would draw other masks. A compiled model recompiles in each context; a copy made within is a stock one.
    """
    _refuse_other_dropouts(model)
    layers = [m for m in model.modules() if isinstance(m, _DropoutNd) and type(m).forward in _KIND_BY_FORWARD]
    layer_keys = split(key, len(layers))  # the same hash: row by row fold_in(key, layer)

    outer_forwards = [vars(module).get("forward") for module in layers]
    try:
        for module, layer_key in zip(layers, layer_keys, strict=True):
            vars(module)["forward"] = _SharedForward(module, layer_key, channels_last, x64)
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


@dataclass
class _SharedForward:
    """Stands in for one dropout module's forward within shared_dropout."""

    module: _DropoutNd
    key: Tensor
    channels_last: bool
    x64: bool | None
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
        x64 = input.dtype == torch.float64 if self.x64 is None else self.x64
        key = (fold_in(self.key, self.draws) if self.draws else self.key).to(input.device)
        self.draws += 1
        kind = _KIND_BY_FORWARD[type(self.module).forward]
        if kind in _CHANNEL_DIMENSIONS:
            ranks = _CHANNEL_DIMENSIONS[kind]
            if input.ndim not in ranks:
                takes = " or ".join(map(str, ranks))
                raise UsageError(f"{kind.__name__} takes {takes} dimensions, but got {tuple(input.shape)}; use Dropout")
            channels = input.shape[: ranks[input.ndim]]
            return bernoulli(key, keep, channels, x64=x64).reshape(channels + (1,) * (input.ndim - len(channels)))
        if self.channels_last and input.ndim > 2:
            return bernoulli(key, keep, input.movedim(1, -1).shape, x64=x64).movedim(-1, 1)
        return bernoulli(key, keep, input.shape, x64=x64)

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
