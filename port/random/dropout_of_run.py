"""The dropout of a whole run whose source is not changed, by the masks of the JAX side, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from port.random.drawing_calls import SharedFunctions
from port.random.dropout import watch_own_layouts
from port.random.shared_draws import DrawLayout, SharedDraws
from port.random.threefry import key as key_of


class DropoutOfRun(SharedFunctions):
    """As `shared_dropout`, but entered once around a program, which draws as it does where no step is begun.

    Args:
        layouts: as `shared_dropout`'s.
        x64: whether the JAX side runs with x64.
    """

    def __init__(self, layouts: Sequence[DrawLayout | tuple[Any, ...] | None], *, x64: bool) -> None:
        self._layouts, self._x64 = layouts, x64
        super().__init__(SharedDraws(key_of(0), None, x64, layouts), channels_last=False)
        self._is_begun = False

    def watch(self, model: nn.Module) -> None:
        """Know the layers of a model that have a layout of their own."""
        watch_own_layouts(model, lambda: self.draws, ExitStack())

    def begin(self, key: torch.Tensor) -> None:
        """A step begins, or a microbatch: its n-th draw has the key ``fold_in(key, n)``."""
        self.draws = SharedDraws(key, None, self._x64, self._layouts)
        self._is_begun = bool(self._layouts)

    def end(self) -> None:
        """The step's loss is computed.

        Raises:
            UsageError: it has not drawn what the written module draws.
        """
        if self._is_begun:
            self._is_begun = False
            self.draws.check_complete()

    def pause(self) -> None:
        """No step is in progress: what is drawn belongs to none."""
        self._is_begun = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call it; within a step with the shared draws."""
        if not self._is_begun:
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)
