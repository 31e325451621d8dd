"""Shares the JAX side's dropout masks with a whole run of an unchanged script, step by step."""

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
    """`shared_dropout` for a whole program: entered once; outside of a step the program draws as usual.

    Args:
        layouts: as for `shared_dropout`.
        x64: whether the JAX side runs with x64.
    """

    def __init__(self, layouts: Sequence[DrawLayout | tuple[Any, ...] | None], *, x64: bool) -> None:
        self._layouts, self._x64 = layouts, x64
        super().__init__(SharedDraws(key_of(0), None, x64, layouts), channels_last=False)
        self._is_begun = self._drops_within_layers = False
        self._watching = ExitStack()

    @property
    def is_missing(self) -> bool:
        """Whether no step is in progress for dropout to be drawn from."""
        return bool(self._layouts) and not self._is_begun

    def watch(self, model: nn.Module) -> None:
        """Track the layers of a model that have their own layout."""
        self._drops_within_layers = drops_within_layers(model)
        watch_own_layouts(model, lambda: self.draws, self._watching)

    def begin(
        self,
        key: torch.Tensor,
        layouts: Sequence[DrawLayout | tuple[Any, ...] | None] | None = None,
        part: BatchPart | None = None,
    ) -> None:
        """Begin a step or a microbatch: its n-th draw uses the key ``fold_in(key, n)``.

        Args:
            key: the key of the step or microbatch.
            layouts: the layouts of its draws, if it is not a training step.
            part: the part of the batch that this process sees, of several; None for the whole batch.
        """
        trains = layouts is None
        layouts = self._layouts if layouts is None else layouts
        self.draws = SharedDraws(key, part, self._x64, layouts)
        self._is_begun = bool(layouts) or (trains and self._drops_within_layers)

    def end(self) -> None:
        """End the step, once its loss is computed.

        Raises:
            UsageError: its draws are not those of the written module.
        """
        if self._is_begun:
            self._is_begun = False
            self.draws.check_complete()

    def pause(self) -> None:
        """Leave the step: what is drawn from now on belongs to none."""
        self._is_begun = False

    def __exit__(self, *raised: Any) -> None:
        """End the program: stop watching modules."""
        self._watching.close()
        super().__exit__(*raised)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function; within a step, with the shared draws."""
        if not self._is_begun:
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)
