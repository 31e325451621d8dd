"""Example inputs: drawn from shapes, given by a callable, or caught on their way into a part of a model."""

from __future__ import annotations

import inspect
from typing import Any

from port.errors import UnknownChoice, UsageError, described
from port.named import named_shape
from port.parity.sides.copies import copied

Given = tuple[tuple[Any, ...], dict[str, Any]]
"""The positional arguments of a call, and those by name."""


def drawn(*shapes: str, seed: int = 0) -> Given:
    """A call's arguments, one for each shape: the same numbers at each call.

    Args:
        shapes: ``"1,3,224,224"``, or with a dtype ``"1,16:int64"``. Floating numbers are normally distributed,
            integers 0 or 1, which are indices into any table that has two rows.
        seed: of the numbers.

    Raises:
        UsageError: no shape, or no dtype of torch's.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def tensor(text: str) -> Any:
        sizes, name = named_shape(text)
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise UsageError(f"an input is a shape, or one with a dtype of torch's, as in 1,16:int64; got {text!r}")
        try:
            return numbers_of(sizes, dtype, generator)
        except (NotImplementedError, RuntimeError) as error:  # dtypes of a name and little else
            raise UsageError(f"torch draws no numbers of {name}; give the inputs by a function") from error

    return tuple(tensor(text) for text in shapes), {}


def numbers_of(sizes: tuple[int, ...], dtype: Any, generator: Any) -> Any:
    """A tensor of numbers: floating ones are normally distributed, others 0 or 1."""
    import torch

    if dtype.is_floating_point or dtype.is_complex:
        # Drawn in one width: the dtypes that few generators know are rounded from it.
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(sizes, generator=generator, dtype=wide).to(dtype)
    return torch.randint(0, 2, sizes, generator=generator).to(dtype)


def arguments(given: Any) -> Given:
    """What a callable of a user's gave, as the arguments of a call.

    Args:
        given: one tensor; a tuple or list of positional arguments; a dict of those by name; or a pair of both.
    """
    match given:
        case (tuple() | list() as args, dict() as kwargs):
            return tuple(args), dict(kwargs)
        case tuple() | list():
            return tuple(given), {}
        case dict():
            return (), dict(given)
        case _:
            return (given,), {}


def calls(given: Any) -> list[Given]:
    """What a callable of a user's gave, as the arguments of one call or of several.

    Args:
        given: as `arguments` takes it; or a list of tuples, dicts and pairs of both, one for each call.
    """
    if isinstance(given, list) and given and all(isinstance(call, tuple | dict) for call in given):
        return list(map(arguments, given))
    return [arguments(given)]


def check_objects(module: Any, given: list[Given]) -> None:
    """See that arguments that are neither arrays nor constants, dtypes say, are the same in all example calls.

    Raises:
        UsageError: one is not; names it.
    """
    import torch
    from torch.utils import _pytree as pytree

    signature = inspect.signature(module.forward)
    try:
        bound = [signature.bind(*args, **kwargs) for args, kwargs in given]
    except TypeError:
        return  # the original says so itself
    known = torch.Tensor | bool | int | float | str | None
    for name in signature.parameters:
        values = [each.arguments.get(name) for each in bound]
        others = [value for value in values if any(not isinstance(x, known) for x in pytree.tree_leaves(value))]
        if others and any(value is not others[0] and value != others[0] for value in values):
            raise UsageError(
                f"{name} is {others[0]!r} in an example call and another thing in others, which no source can tell: "
                "give the same in all example calls, or translate each by itself"
            )


class _Caught(Exception):
    """The part was called: the rest of the model need not run."""


def inside(module: Any, path: str, args: Any, kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A part of a model, and what the model calls it with first.

    Args:
        module: the whole model; it is run once, in evaluation, as far as its part.
        path: of the part, as in ``layer1.0``.
        args: the whole model's arguments.
        kwargs: those by name.

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
        caught.append(pytree.tree_map(_own, (args, kwargs)))
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
            "name a part that has a forward of its own"
        )
    found_args, found_kwargs = caught[0]
    return parts[path], found_args, found_kwargs


def _own(leaf: Any) -> Any:
    import torch

    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def first_line(error: BaseException) -> str:
    """What an error of somebody else's says, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
