"""Which torch calls draw random numbers, and what they draw from a step's key instead.

There are two levels, as in torch. A *function* (``F.dropout``, ``Tensor.bernoulli_``) is what a model calls; dropout
functions are computed here as XLA computes them, to the last bit. What happens inside a function is visible as
*operators*: attention, recurrent layers and others run with their operators watched, and each that draws is matched or
rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from port.errors import UsageError
from port.random.shared_draws import SharedDraws, location

# %% Functions

# By the input's number of dimensions: how many dimensions lead up to the channels that are dropped whole: (N, C), or
# (C,) without a batch. PyTorch reads three dimensions of dropout2d as (N, C, L).
_CHANNEL_DIMENSIONS: dict[Any, dict[int, int]] = {
    F.dropout1d: {2: 1, 3: 2},
    F.dropout2d: {3: 2, 4: 2},
    F.dropout3d: {4: 1, 5: 2},
}
_ELEMENTS = (F.dropout, torch.dropout, torch.dropout_)
_ATTENTION = ("scaled_dot_product_attention", "multi_head_attention_forward")
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_WATCHED = frozenset(
    (
        *_ATTENTION,
        *_RECURRENT,
        *("alpha_dropout", "alpha_dropout_", "feature_dropout", "feature_dropout_", "native_dropout"),
        *("feature_alpha_dropout", "feature_alpha_dropout_", "rrelu", "rrelu_", "bernoulli", "bernoulli_"),
        *("rand", "rand_like", "uniform_", "randn", "randn_like", "normal", "normal_", "randint", "randint_like"),
        *("random_", "randperm", "multinomial", "poisson", "exponential_", "geometric_", "cauchy_", "log_normal_"),
        *("gumbel_softmax", "fractional_max_pool2d_with_indices", "fractional_max_pool3d_with_indices"),
    )
)


class SharedFunctions(TorchFunctionMode):
    """A context in which torch's functions draw from ``draws``; ``channels_last`` as in `shared_dropout`."""

    def __init__(self, draws: SharedDraws, channels_last: bool) -> None:
        super().__init__()
        self.draws, self.channels_last = draws, channels_last

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _ELEMENTS or func in _CHANNEL_DIMENSIONS:
            return self._dropout(func, *args, **kwargs)
        name = getattr(func, "__name__", "")
        if name not in _WATCHED:
            return func(*args, **kwargs)
        if name in _RECURRENT and _is_packed(args):
            _refuse_packed(name, args)
        with ExitStack() as entered:
            if name in _ATTENTION and _attention_rate(func, name, args, kwargs) > 0:
                entered.enter_context(sdpa_kernel(SDPBackend.MATH))  # its dropout is a separate operator
            entered.enter_context(_SharedOperators(self.draws))
            return func(*args, **kwargs)

    def _dropout(
        self, func: Any, input: Tensor, p: float = 0.5, training: Any = True, inplace: bool = False, **named: Any
    ) -> Tensor:
        training = named.pop("train", training)
        inplace = inplace or func is torch.dropout_
        if not training or not 0 < p <= 1:
            positional = (input, p, training) if func in _ELEMENTS[1:] else (input, p, training, inplace)
            return func(*positional, **named)  # type: ignore[no-any-return]  # it also rejects an invalid rate
        if p == 1:  # nothing is drawn; dividing by 0 would leave NaN in the gradient
            dropped = torch.where(torch.zeros((), dtype=torch.bool, device=input.device), input, 0.0)
        else:
            dropped = torch.where(self._mask(func, input, 1.0 - p), _divided(input, 1.0 - p), 0.0)
        return input.copy_(dropped) if inplace else dropped

    def _mask(self, func: Any, input: Tensor, keep: float) -> Tensor:
        """True where ``input`` is kept, in a shape that broadcasts to it."""
        if func in _CHANNEL_DIMENSIONS:
            ranks = _CHANNEL_DIMENSIONS[func]
            name = func.__name__.capitalize()
            if input.ndim not in ranks:
                takes = " or ".join(map(str, ranks))
                raise UsageError(f"{name} takes {takes} dimensions, but got {tuple(input.shape)}; use Dropout")
            channels = tuple(input.shape[: ranks[input.ndim]])
            if self.draws.part is not None and len(channels) == 1:
                got = f"{tuple(input.shape)} for {name}, which has none"
                raise UsageError(f"rows need inputs with a batch dimension, but got {got}; add one")
            return self.draws.mask(channels + (1,) * (input.ndim - len(channels)), keep, input)
        if self.channels_last and input.ndim > 2:
            return self.draws.mask(input.movedim(1, -1).shape, keep, input).movedim(-1, 1)
        return self.draws.mask(input.shape, keep, input)


def _divided(input: Tensor, keep: float) -> Tensor:
    """``input / keep`` to the last bit, as XLA computes it in nnx.Dropout.

    XLA multiplies by the reciprocal, rounded to the input's dtype; only bfloat16 is divided. ``keep`` is rounded as
    well, hence a tensor: how PyTorch divides by a Python float depends on the device.
    """
    divisor = torch.full((), keep, dtype=input.dtype, device=input.device)
    return input / divisor if input.dtype == torch.bfloat16 else input * divisor.reciprocal()


def _attention_rate(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> float:
    if name == "scaled_dot_product_attention":
        return float(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))
    arguments = signature(func).bind(*args, **kwargs).arguments
    return float(arguments["dropout_p"]) if arguments.get("training", True) else 0.0


def _is_packed(args: Any) -> bool:
    """Whether a recurrent function is called with a packed sequence: data, then batch sizes."""
    return len(args) > 1 and isinstance(args[1], Tensor) and not args[1].is_floating_point()


def _refuse_packed(name: str, args: Any) -> None:
    *_, layers, rate, training, _ = args
    if training and rate > 0 and layers > 1:
        raise UsageError(
            f"{location()}: {name} drops {rate} between the layers of a packed sequence, whose elements have another "
            "order in JAX; pass the padded sequence, or set dropout=0"
        )


# %% Operators


class _SharedOperators(TorchDispatchMode):
    def __init__(self, draws: SharedDraws) -> None:
        super().__init__()
        self.draws = draws

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        rule = _OPERATORS.get(func._schema.name.removeprefix("aten::"))
        if rule is not None:
            return rule(self.draws, func, args, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags and _drops(func, args, kwargs):
            raise UsageError(
                f"{location()}: {func._schema.name} draws random numbers, and not as jax.random does: the two sides "
                f"would draw different numbers. {_remedy(func)}"
            )
        return func(*args, **kwargs)


def _drops(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an operator that can draw does so: with a rate of 0, or outside training, it does not."""
    arguments = _named(func, args, kwargs)
    rates = [arguments[name] for name in ("dropout_p", "dropout") if name in arguments]
    training = [arguments[name] for name in ("train", "training") if name in arguments]
    return all(rates[:1] or [True]) and all(training[:1] or [True])


def _remedy(func: Any) -> str:
    if "rnn" in func._schema.name:
        return "Take `with torch.backends.cudnn.flags(enabled=False):` while the two sides are compared"
    return "Draw outside the context and pass both sides the same numbers, or draw by dropout, bernoulli, rand or randn"


def _named(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name, including defaults, which the dispatcher leaves out."""
    defaults = {each.name: each.default_value for each in func._schema.arguments if each.has_default_value()}
    named = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)}
    return {**defaults, **named, **kwargs}


def _chance(draws: SharedDraws, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """bernoulli: 1 with one probability for the call, or with a probability for each element."""
    self, p = args[0], _named(func, args, kwargs).get("p")
    if isinstance(p, Tensor):
        kept = draws.chances(p.to(self.dtype if self.is_floating_point() else p.dtype).expand_as(self))
    else:
        kept = draws.chances(self) if p is None else draws.mask(self.shape, float(p), self)
    return self.copy_(kept) if func._schema.name.endswith("_") else kept.to(self.dtype)


def _native_dropout(draws: SharedDraws, func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    arguments = _named(func, args, kwargs)
    x, p = arguments["input"], arguments["p"]
    if arguments["train"] is False or not 0 < p < 1:
        return func(*args, **kwargs)  # type: ignore[no-any-return]
    kept = draws.mask(x.shape, 1.0 - p, x)
    return torch.where(kept, _divided(x, 1.0 - p), 0.0), kept


def _slopes(draws: SharedDraws, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
    # The second argument keeps the slopes for the backward pass.
    arguments = _named(func, args, kwargs)
    x = arguments["self"]
    if not arguments["training"]:
        return func(*args, **kwargs)  # type: ignore[no-any-return]
    drawn = draws.numbers(x.shape, x.dtype, arguments["lower"], arguments["upper"], x)
    arguments["noise"].copy_(torch.where(x <= 0, drawn, 1))
    result = x * arguments["noise"]
    return x.copy_(result) if func._schema.name.endswith("_") else result


def _uniform(draws: SharedDraws, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """rand, rand_like and uniform_: uniform numbers in a range."""
    arguments = _named(func, args, kwargs)
    options = {name: kwargs[name] for name in ("dtype", "layout", "device", "pin_memory") if name in kwargs}
    if "self" not in arguments:
        result = torch.empty(tuple(arguments["size"]), **options)
    else:
        result = (
            arguments["self"] if func._schema.name.endswith("_") else torch.empty_like(arguments["self"], **options)
        )
    low, high = arguments.get("from", 0.0), arguments.get("to", 1.0)
    return result.copy_(draws.numbers(result.shape, result.dtype, low, high, result))


def _normal(draws: SharedDraws, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """randn, randn_like, normal and normal_: normally distributed numbers."""
    arguments = _named(func, args, kwargs)
    options = {name: kwargs[name] for name in ("dtype", "layout", "device", "pin_memory") if name in kwargs}
    mean, std = arguments.get("mean", 0.0), arguments.get("std", 1.0)
    if "size" in arguments:
        result = torch.empty(tuple(arguments["size"]), **options)
    elif "self" in arguments:
        result = (
            arguments["self"] if func._schema.name.endswith("_") else torch.empty_like(arguments["self"], **options)
        )
    else:
        result = torch.empty_like(mean + std)
    return result.copy_(mean + std * draws.normals(result.shape, result.dtype, result))


_OPERATORS: dict[str, Callable[[SharedDraws, Any, Any, dict[str, Any]], Any]] = {
    **dict.fromkeys(("bernoulli", "bernoulli_"), _chance),
    "native_dropout": _native_dropout,
    **dict.fromkeys(("rrelu_with_noise", "rrelu_with_noise_"), _slopes),
    **dict.fromkeys(("rand", "rand_like", "uniform_"), _uniform),
    **dict.fromkeys(("randn", "randn_like", "normal", "normal_"), _normal),
}
