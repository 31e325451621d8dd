"""Detect whether a run reads its mode; where nothing does, one trace serves both evaluation and training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import torch

Made = TypeVar("Made")

_DECIDING = {"training", "train", "eval", "__getattribute__"}
"""Attributes whose redefinition gives a mode more meaning than the flag ``training``, or hides reads of the flag."""


class ModeReads:
    """Watches reads and writes of ``training`` while a module runs.

    A layer kept whole may read it, as dropout does, if its trace is the same in both modes. Reads through
    ``vars(module)["training"]`` go unnoticed; the proof runs both modes.

    Args:
        module: the root module.

    Attributes:
        found: whether the trace may depend on the mode.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.found = any(map(_decides_itself, module.modules()))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record reads of ``training`` by any module, within the context."""

        def read(module: Any) -> Any:
            self.found = True
            attributes = vars(module)
            return attributes["training"] if "training" in attributes else type(module).__getattr__(module, "training")

        def write(module: Any, training: Any) -> None:
            self.found = True
            vars(module)["training"] = training

        # torch.nn.Module has no class attribute of this name, and a property takes precedence over instance attributes.
        with patch.object(torch.nn.Module, "training", property(read, write), create=True):
            yield

    def of_layer(self, run: Callable[[bool], Made], traced: Callable[[Made], Any]) -> Made:
        """Run a layer kept whole, and count its reads of the mode only if the other mode's result differs.

        Args:
            run: runs the layer, in its own mode for False and in the other for True.
            traced: the part of the layer's result that a trace depends on.

        Returns:
            The result in the layer's own mode.
        """
        before, self.found = self.found, False
        made = run(False)
        if self.found and not before:
            try:
                self.found = traced(run(True)) != traced(made)
            except Exception:  # an error in the other mode is a difference too
                self.found = True
        self.found |= before
        return made


def _decides_itself(module: torch.nn.Module) -> bool:
    """Whether a module redefines what its mode is, beyond the flag ``training``."""
    if isinstance(module, torch.jit.ScriptModule) or not _DECIDING.isdisjoint(vars(module).keys() - {"training"}):
        return True
    classes = type(module).__mro__
    return any(not _DECIDING.isdisjoint(vars(cls)) for cls in classes[: classes.index(torch.nn.Module)])
