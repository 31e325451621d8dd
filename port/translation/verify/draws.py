"""Supply both sides with the same random numbers, to compare modules that draw.

Each draw has its own generator, seeded by its index in the order of draws; each side reads it in its own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from port.errors import UsageError
from port.translation.ir.layout import Drawn, Layout
from port.translation.verify.drawn_rounds import round_by_round

if TYPE_CHECKING:
    from torch import nn


class _Numbers:
    """The draws of one run, in order.

    Args:
        seed: seeds the numbers.
        layouts: the layouts of the draws on JAX's side; None on torch's side.
    """

    def __init__(self, seed: int, layouts: Sequence[Drawn] | None = None) -> None:
        self.seed, self.count = seed, 0
        self.following = None if layouts is None else iter(layouts)

    def next(self, shape: tuple[int, ...], kind: str) -> np.ndarray:
        """Return the next draw: numbers of a shape and distribution, in torch's layout or in the draw's."""
        layout = None if self.following is None else self._layout(self.following)
        generator = np.random.default_rng([self.seed, self.count])
        self.count += 1
        if layout is not None and layout.rank != len(shape):
            layout = None
        if layout is not None:
            shape = tuple(shape[layout.order.index(dim)] for dim in range(layout.rank))
        drawn: dict[str, Callable[..., np.ndarray]] = {
            "uniform": generator.random,
            "normal": generator.standard_normal,
            "exponential": generator.exponential,
        }
        made = drawn[kind](size=shape)
        return made if layout is None else laid_out(made, layout)

    def _layout(self, following: Iterator[Drawn]) -> Layout:
        """Return the next draw's layout; skip the numbers of draws that only the original makes.

        Raises:
            UsageError: the original draws less often.
        """
        for layout in following:
            if isinstance(layout, Layout):
                return layout
            if layout is not None:
                break
            self.count += 1
        raise UsageError(
            f"the written module draws random numbers {self.count + 1} times or more, the original {self.count} times"
        )

    def _round_of(self, following: Iterator[Drawn]) -> tuple[Drawn, ...]:
        """Return the layouts of the draws in each iteration of the next loop."""
        for layouts in following:
            if layouts is not None:
                return layouts if isinstance(layouts, tuple) else ()
            self.count += 1
        return ()

    def rounds(self, count: int) -> Iterator[int]:
        """Yield the iterations of a loop; each one's draws have the loop's layouts."""
        before = self.following
        layouts = self._round_of(before) if before is not None else ()
        for number in range(count):
            self.following = iter(layouts)
            yield number
            self.count += sum(1 for _ in self.following)  # draws at an iteration's end that only the original makes
        self.following = before


def laid_out(array: np.ndarray, layout: Layout) -> np.ndarray:
    """Bring an array from torch's layout to another."""
    folded = layout.folded
    if folded is not None and array.shape[folded.axis] > 1:
        before, after = array.shape[: folded.axis], array.shape[folded.axis + 1 :]
        block = tuple(len(before) + part for part in folded.order)
        axes = (*range(len(before)), *block, *range(len(before) + len(block), array.ndim + len(block) - 1))
        array = array.reshape(*before, *folded.shape, *after).transpose(axes).reshape(array.shape)
    return array.transpose(layout.order)


@contextmanager
def torch_draws(seed: int, *, without_dropout: Iterable[nn.Module] = ()) -> Iterator[None]:
    """Context manager: replace torch's random numbers by those of a seed.

    Args:
        seed: seeds the numbers.
        without_dropout: modules in whose ``forward`` functional dropouts are disabled.
    """
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    numbers = _Numbers(seed)
    inside: list[nn.Module] = []

    class WithoutDropout(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return (_without_dropout if inside else _as_it_is)(func, args, kwargs or {})

    class SuppliedDraws(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            rule = _TORCH.get(func._schema.name.removeprefix("aten::"))
            return func(*args, **(kwargs or {})) if rule is None else rule(numbers, func, args, kwargs or {})

    with ExitStack() as entered:
        for module in without_dropout:
            enter = module.register_forward_pre_hook(lambda module, args: inside.append(module))
            leave = module.register_forward_hook(lambda module, args, result: _left(inside), always_call=True)
            entered.callback(enter.remove)
            entered.callback(leave.remove)
        entered.enter_context(WithoutDropout())
        entered.enter_context(SuppliedDraws())
        yield


def _left(inside: list[nn.Module]) -> None:
    inside.pop()


def _as_it_is(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


def _without_dropout(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = getattr(func, "__name__", "")
    if name in ("dropout", "dropout_"):
        return args[0] if args else kwargs["input"]
    if name == "scaled_dot_product_attention":
        args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
        kwargs = {**kwargs, "dropout_p": 0.0} if "dropout_p" in kwargs else kwargs
    return func(*args, **kwargs)


Rule = Callable[[_Numbers, Any, Any, dict[str, Any]], Any]


def _like(kind: str, made: Callable[..., Any]) -> Rule:
    """Return a rule that draws in the shape and dtype of torch's own result."""

    def rule(numbers: _Numbers, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        import torch

        result = func(*args, **kwargs)
        drawn = torch.from_numpy(np.array(numbers.next(tuple(result.shape), kind)))
        return result.copy_(made(drawn, _all_arguments(func, args, kwargs), result))

    return rule


def _all_arguments(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments by name, with the defaults that the dispatcher omits."""
    defaults = {each.name: each.default_value for each in func._schema.arguments if each.has_default_value()}
    named = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)}
    return {**defaults, **named, **kwargs}


_UNIFORM = _like("uniform", lambda u, a, result: u)
_NORMAL = _like("normal", lambda n, a, result: n)
_INTEGERS = _like("uniform", lambda u, a, result: (a.get("low", 0) + u * (a["high"] - a.get("low", 0))).floor())
_SCALED_NORMAL = _like("normal", lambda n, a, result: a["mean"] + a["std"] * n)
_SCALED_UNIFORM = _like("uniform", lambda u, a, result: a["from"] + u * (a["to"] - a["from"]))


def _bernoulli(numbers: _Numbers, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    # The in-place form overwrites its probabilities.
    import torch

    probabilities = args[0].clone() if isinstance(args[0], torch.Tensor) else args[0]
    drawn = torch.from_numpy(np.array(numbers.next(tuple(args[0].shape), "uniform")))
    below = drawn < _all_arguments(func, args, kwargs).get("p", probabilities)
    if func._schema.name.endswith("_"):
        return args[0].copy_(below)
    return below.to(args[0].dtype)


def _rrelu(numbers: _Numbers, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    # RReLU stores its slopes in ``noise``, for the gradient.
    import torch

    arguments = _all_arguments(func, args, kwargs)
    x, lower, upper = arguments["self"], arguments["lower"], arguments["upper"]
    if not arguments["training"]:
        return func(*args, **kwargs)
    drawn = torch.from_numpy(np.array(numbers.next(tuple(x.shape), "uniform"))).to(x.dtype)
    arguments["noise"].copy_(torch.where(x <= 0, lower + drawn * (upper - lower), 1))
    result = x * arguments["noise"]
    return x.copy_(result) if func._schema.name.endswith("_") else result


_TORCH: dict[str, Rule] = {
    **dict.fromkeys(("rrelu_with_noise", "rrelu_with_noise_"), _rrelu),
    **dict.fromkeys(("rand", "rand_like"), _UNIFORM),
    **dict.fromkeys(("randn", "randn_like"), _NORMAL),
    **dict.fromkeys(("randint", "randint_like"), _INTEGERS),
    **dict.fromkeys(("uniform_", "uniform"), _SCALED_UNIFORM),
    **dict.fromkeys(("normal_", "normal", "normal_functional"), _SCALED_NORMAL),
    **dict.fromkeys(("exponential_", "exponential"), _like("exponential", lambda e, a, result: e / a["lambd"])),
    **dict.fromkeys(("bernoulli", "bernoulli_"), _bernoulli),
}


@contextmanager
def jax_draws(seed: int, layouts: Sequence[Drawn]) -> Iterator[None]:
    """Context manager: replace jax.random's numbers by those of a seed, each draw in its layout.

    Loops that draw run as Python loops, since `nnx.scan` traces only one iteration. Options of implementation and
    sharding are ignored.
    """
    import jax
    import jax.numpy as jnp
    from flax import nnx

    numbers = _Numbers(seed, layouts)

    def uniform(
        key: Any, shape: Any = (), dtype: Any = float, minval: Any = 0.0, maxval: Any = 1.0, **options: Any
    ) -> Any:
        drawn = minval + numbers.next(tuple(shape), "uniform") * (maxval - minval)
        return jnp.asarray(drawn.astype(jnp.dtype(dtype)))  # a numpy array cannot be compared with a variable

    def normal(key: Any, shape: Any = (), dtype: Any = float, **options: Any) -> Any:
        return jnp.asarray(numbers.next(tuple(shape), "normal"), dtype)

    def exponential(key: Any, shape: Any = (), dtype: Any = float, **options: Any) -> Any:
        return jnp.asarray(numbers.next(tuple(shape), "exponential"), dtype)

    def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, **options: Any) -> Any:
        return jnp.asarray(numbers.next(tuple(jnp.shape(p) if shape is None else shape), "uniform") < p)

    def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = int, **options: Any) -> Any:
        drawn = minval + numbers.next(tuple(shape), "uniform") * (maxval - minval)
        return jnp.asarray(np.floor(drawn), dtype)

    with ExitStack() as patched:
        for function in (uniform, normal, exponential, bernoulli, randint):
            patched.enter_context(patch.object(jax.random, function.__name__, function))
        if draws_something(layouts):
            patched.enter_context(patch.object(nnx, "scan", partial(round_by_round, numbers.rounds)))
        yield


def draws_something(layouts: Iterable[Drawn]) -> bool:
    """Whether there is any draw; a loop whose iterations draw nothing does not count."""
    return any(isinstance(each, Layout) or (each is not None and draws_something(each)) for each in layouts)
