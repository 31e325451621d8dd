"""What torch.export says when it cannot capture a module, as sentences for people."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

from port.errors import NoPair, PortError, UsageError
from port.translation.capture import capture
from port.translation.copies import copied
from port.translation.double import default_float64, in_double, runs, twice
from port.translation.graph import Graph, Place
from port.translation.places import is_users

_DATA_DEPENDENT = ("DataDependent", "GuardOnData", "UserError", "Unbacked", "ConstraintViolation")


def both_modes(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, layers: dict[str, Any], dynamic: bool
) -> tuple[bool, dict[bool, Graph]]:
    """The graphs of evaluation and training; and whether they were captured in float64.

    In float64, what is computed in the model's own precision can be told from what the code says is float32. A model
    that does not run so is captured as it is.

    Raises:
        NoPair, UsageError: as `captured`.
    """
    see_that_it_runs(module, args, kwargs)
    wide = in_double(module, args, kwargs)
    if wide is not None:
        try:
            with default_float64():
                return True, _both(*wide, layers=layers, dynamic=dynamic)
        except PortError:
            pass
    return False, _both(module, args, kwargs, layers=layers, dynamic=dynamic)


def _both(module: Any, args: Any, kwargs: Any, *, layers: dict[str, Any], dynamic: bool) -> dict[bool, Graph]:
    return {
        training: captured(module, args, kwargs, training=training, layers=layers, dynamic=dynamic)
        for training in (False, True)
    }


def captured(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, training: bool, layers: dict[str, Any], dynamic: bool
) -> Graph:
    """`capture`, with example inputs whose batch is not fixed where that can be.

    Raises:
        NoPair: the module cannot be captured; says where, and what to do.
        UsageError: it does not take its inputs.
    """
    import torch

    def whole(inner: Any, path: str) -> bool:
        return path in layers

    def free(tensor: Any) -> dict[int, Any] | None:
        axes = range(tensor.ndim) if dynamic else range(min(tensor.ndim, 1))
        return dict.fromkeys(axes, torch.export.Dim.AUTO)

    with _quiet():
        doubled = _doubled(module, args, kwargs)
        for given, shapes in ((doubled, free), ((args, kwargs), free), ((args, kwargs), _fixed)):
            if given is None:
                continue
            try:
                graph = capture(module, *given, training=training, whole=whole, dynamic=shapes)
            except PortError:
                raise
            except Exception as error:
                last = error
                continue
            # A batch that the module fixes has to be the one that was given.
            if given is not doubled or not any(
                isinstance(value.shape[0], int) for value in graph.inputs if value.shape
            ):
                return graph
    raise refusal(last) from None


def _fixed(tensor: Any) -> dict[int, Any] | None:
    return None


def see_that_it_runs(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    import torch

    try:
        with torch.no_grad():
            copied(module).eval()(*args, **kwargs)
    except PortError:
        raise
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
        where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        raise UsageError(
            f"{type(module).__qualname__} does not take the example inputs{where}: {_first_line(error)}"
        ) from None


def _doubled(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """The inputs with a batch of more than one: torch.export takes a length of 1 for a constant."""
    import torch
    from torch.utils import _pytree as pytree

    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.ndim]
    if not tensors or any(tensor.shape[0] != 1 for tensor in tensors):
        return None

    given = twice(args, kwargs)
    return given if runs(module, *given, training=False) else None


def refusal(error: Exception) -> NoPair:
    """The sentence for what torch.export raised."""
    text = str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    place = Place(frames[-1].filename, frames[-1].lineno or 0) if frames else _place_in(text)
    where = f"{place}: " if place is not None else ""
    line = frames[-1].line if frames else ""
    kind = type(error).__name__
    if "data-dependent" in text or any(name in kind for name in _DATA_DEPENDENT):
        return NoPair(
            f"{where}{f'`{line}` ' if line else ''}is data-dependent: what it does, or how long its result is, "
            "depends on the values of a tensor, and a traced JAX program cannot ask for them. Write it with "
            "torch.where or a mask; make what decides a constant of the module; register a pair for the module "
            "(port.register); or translate the parts that do not need it (--submodule PATH)"
        )
    return NoPair(f"{where}{f'`{line}`: ' if line else ''}torch.export cannot capture this: {_first_line(error)}")


def _place_in(text: str) -> Place | None:
    found = [pair for pair in re.findall(r'File "([^"]+)", line (\d+)', text) if is_users(pair[0])]
    return Place(found[-1][0], int(found[-1][1])) if found else None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


@contextmanager
def _quiet() -> Iterator[None]:
    """torch's own log of what it could not export is long, and speaks of torch's insides."""
    loggers = [
        logging.getLogger(name) for name in ("torch", "torch.export", "torch.fx", "torch._dynamo", "torch._functorch")
    ]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        with redirect_stderr(StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
