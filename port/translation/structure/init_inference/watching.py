"""Watch a construction: every torch operator that runs, and the files that are read."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from port.translation.structure.init_inference.operators import Operators
from port.translation.structure.init_inference.shadows import Shadows


class Watch:
    """A watched construction.

    Attributes:
        shadows: the shadows of all tensors.
        files: names of the files opened for reading.
    """

    def __init__(self) -> None:
        self.shadows = Shadows()
        self.operators = Operators(self.shadows)
        self.files: list[str] = []

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        """Watch everything that runs inside the context."""
        truncated = torch.nn.init._no_grad_trunc_normal_
        from_numpy = torch.from_numpy

        def draw_truncated(tensor: Any, mean: float, std: float, a: float, b: float, generator: Any = None) -> Any:
            # torch redraws values outside the bounds until there are none.
            made = truncated(tensor, mean, std, a, b, generator)
            self.operators.draw(made, "truncated", mean, std, a, b)
            return made

        def taken(array: Any) -> Any:
            made = from_numpy(array)
            self.operators.from_numbers(made)
            return made

        load_state_dict = torch.nn.Module.load_state_dict

        def loaded(module: Any, *args: Any, **kwargs: Any) -> Any:
            self.operators.loading = read_from(self.files) or "a state dict is loaded into it"
            try:
                return load_state_dict(module, *args, **kwargs)
            finally:
                self.operators.loading = ""

        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(torch.nn.Module, "load_state_dict", loaded))
            stack.enter_context(mock.patch.object(torch.nn.init, "_no_grad_trunc_normal_", draw_truncated))
            stack.enter_context(mock.patch.object(torch, "from_numpy", taken))
            stack.enter_context(mock.patch.object(builtins, "open", self._opening(builtins.open)))
            stack.enter_context(_Calls(self.operators))
            stack.enter_context(_Dispatch(self.operators))
            yield self

    def _opening(self, opened: Any) -> Any:
        def watched(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if isinstance(file, str | Path) and "r" in mode and not str(file).endswith((".py", ".pyc")):
                self.files.append(Path(file).name)
            return opened(file, mode, *args, **kwargs)

        return watched


_FROM_NUMBERS = ("tensor", "as_tensor", "asarray", "new_tensor")


def read_from(files: Iterable[str]) -> str:
    """A clause that says which files numbers come from; empty if no file was read."""
    names = list(dict.fromkeys(files))
    return f"it is read from a file ({', '.join(names[:3])})" if names else ""


class _Calls(TorchFunctionMode):
    """Detects tensors made from numbers that are not torch's."""

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self.operators = operators

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        data = args[-1] if args else (kwargs or {}).get("data")
        leaves = pytree.tree_leaves(data)
        is_made = getattr(function, "__name__", "") in _FROM_NUMBERS
        if is_made and not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
            self.operators.from_numbers(made)
        return made


class _Dispatch(TorchDispatchMode):
    """Records every operator that runs."""

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self.operators = operators

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = function(*args, **kwargs)
        self.operators.ran(function, args, kwargs, made)
        return made
