"""Example inputs: drawn from shapes, returned by a callable, or intercepted on their way into a part of a model."""

from __future__ import annotations

import inspect
from typing import Any

from port.errors import UnknownChoice, UsageError, described
from port.named import named_shape, too_large
from port.parity.sides.copies import copied

Given = tuple[tuple[Any, ...], dict[str, Any]]
"""The positional and the keyword arguments of a call."""


def drawn(*shapes: str, seed: int = 0) -> Given:
    """Draw the arguments of a call, one for each shape; every call draws the same numbers.

    Args:
        shapes: ``"1,3,224,224"``, or with a dtype ``"1,16:int64"``. Floating-point numbers are normally distributed;
            integers are 0 or 1, valid indices into any table with two rows.
        seed: the generator's seed.

    Raises:
        UsageError: a text is not a shape, its dtype is not one of torch's, torch cannot draw numbers of it, or it
            does not fit into memory.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def tensor(text: str) -> Any:
        sizes, name = named_shape(text)
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise UsageError(f"an input is a shape, or one with a dtype of torch's, as in 1,16:int64; got {text!r}")
        try:
            numbers_of((1,), dtype, torch.Generator())
        except (NotImplementedError, RuntimeError) as error:  # a dtype with few operators, such as int7
            raise UsageError(f"torch draws no numbers of {name}; make the inputs in a function") from error
        try:
            return numbers_of(sizes, dtype, generator)
        except (RuntimeError, TypeError) as error:  # TypeError: a length beyond 64 bits
            raise too_large(text, sizes) from error

    return tuple(tensor(text) for text in shapes), {}


def numbers_of(sizes: tuple[int, ...], dtype: Any, generator: Any) -> Any:
    """Draw a tensor: floating-point and complex numbers are normally distributed, others 0 or 1."""
    import torch

    if dtype.is_floating_point or dtype.is_complex:
        # Draw in double precision and round: not every dtype has a generator.
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(sizes, generator=generator, dtype=wide).to(dtype)
    return torch.randint(0, 2, sizes, generator=generator).to(dtype)


def arguments(returned: Any) -> Given:
    """Normalise the result of a user's function to the arguments of a call.

    Args:
        returned: one tensor; a tuple or list of positional arguments; a dict of keyword arguments; or a pair of both.
    """
    match returned:
        case (tuple() | list() as args, dict() as kwargs):
            return tuple(args), dict(kwargs)
        case tuple() | list():
            return tuple(returned), {}
        case dict():
            return (), dict(returned)
        case _:
            return (returned,), {}


def calls(returned: Any) -> list[Given]:
    """Normalise the result of a user's function to the arguments of one call or of several.

    Args:
        returned: as in `arguments`; or a list of tuples, dicts and pairs of both, one for each call.
    """
    if isinstance(returned, list) and returned and all(isinstance(call, tuple | dict) for call in returned):
        return list(map(arguments, returned))
    return [arguments(returned)]


def check_objects(module: Any, examples: list[Given]) -> None:
    """Check that arguments that are neither arrays nor constants, such as dtypes, are the same in all example calls.

    Raises:
        UsageError: an argument differs; names it.
    """
    import torch
    from torch.utils import _pytree as pytree

    signature = inspect.signature(module.forward)
    try:
        bound = [signature.bind(*args, **kwargs) for args, kwargs in examples]
    except TypeError:
        return  # running the original reports it
    known = torch.Tensor | bool | int | float | str | None
    for name in signature.parameters:
        values = [each.arguments.get(name) for each in bound]
        others = [value for value in values if any(not isinstance(x, known) for x in pytree.tree_leaves(value))]
        if others and any(value is not others[0] and value != others[0] for value in values):
            raise UsageError(
                f"{name} is {others[0]!r} in one example call and something else in another, and the source cannot "
                "distinguish them: pass the same in all example calls, or translate each separately"
            )


class _Caught(Exception):
    """Raised when the part is called, to skip the rest of the model."""


def inside(module: Any, path: str, args: Any, kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a part of a model, and the arguments of the model's first call of it.

    Args:
        module: the whole model; it is run once, in evaluation mode, until it calls the part.
        path: the part's path, such as ``layer1.0``.
        args: the whole model's positional arguments.
        kwargs: the whole model's keyword arguments.

    Returns:
        The part, its positional and its keyword arguments.

    Raises:
        UnknownChoice: there is no such part.
        UsageError: the model does not take these arguments, or does not call that part.
    """
    import torch
    from torch.utils import _pytree as pytree

    parts = dict(module.named_modules())
    if not path or path not in parts:
        raise UnknownChoice(f"part of {type(module).__qualname__}", path, [name for name in parts if name])
    whole = copied(module).eval()
    caught: list[Any] = []

    def catch(_: Any, args: Any, kwargs: Any) -> None:
        caught.append(pytree.tree_map(_detached_copy, (args, kwargs)))
        raise _Caught

    handle = whole.get_submodule(path).register_forward_pre_hook(catch, with_kwargs=True)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            whole(*args, **kwargs)
    except _Caught:
        pass
    except Exception as error:
        raise UsageError(
            f"{type(module).__qualname__} does not take the example inputs: {type(error).__name__}: {first_line(error)}"
        ) from error
    finally:
        handle.remove()
    if not caught:
        raise UsageError(
            f"{type(module).__qualname__} does not call its part {path} ({described(parts[path])}) with these inputs: "
            "name a part whose forward is called"
        )
    found_args, found_kwargs = caught[0]
    return parts[path], found_args, found_kwargs


def _detached_copy(leaf: Any) -> Any:
    import torch

    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error, at most 300 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
