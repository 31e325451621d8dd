"""The dropout of a whole run whose source is not changed, by the masks of the JAX side, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from port.random.batch_part import BatchPart
from port.random.drawing_calls import SharedFunctions
from port.random.dropout import drops_within_layers, watch_own_layouts
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
        self._is_begun = self._drops_within_layers = False
        self._watching = ExitStack()

    @property
    def is_missing(self) -> bool:
        """Whether no step is in progress whose dropout would be drawn."""
        return bool(self._layouts) and not self._is_begun

    def watch(self, model: nn.Module) -> None:
        """Know the layers of a model that have a layout of their own."""
        self._drops_within_layers = drops_within_layers(model)
        watch_own_layouts(model, lambda: self.draws, self._watching)

    def begin(
        self,
        key: torch.Tensor,
        layouts: Sequence[DrawLayout | tuple[Any, ...] | None] | None = None,
        part: BatchPart | None = None,
    ) -> None:
        """A step begins, or a microbatch: its n-th draw has the key ``fold_in(key, n)``.

        Args:
            key: of it.
            layouts: of what is drawn in it, where that is no step in training.
            part: of a batch, in one of several processes; None for a whole one.
        """
        trains = layouts is None
        layouts = self._layouts if layouts is None else layouts
        self.draws = SharedDraws(key, part, self._x64, layouts)
        self._is_begun = bool(layouts) or (trains and self._drops_within_layers)

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

    def __exit__(self, *raised: Any) -> None:
        """The program is over: no module is watched any more."""
        self._watching.close()
        super().__exit__(*raised)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call it; within a step with the shared draws."""
        if not self._is_begun:
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)
