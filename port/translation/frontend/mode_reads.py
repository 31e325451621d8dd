"""Whether a run asks which mode it is in: where nothing does, one trace is that of evaluation and of training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import torch

Made = TypeVar("Made")

_DECIDING = {"training", "train", "eval", "__getattribute__"}
"""What a class may define so that a mode is more than the flag ``training``, or so that reads of it are not seen."""


class ModeReads:
    """Who reads or sets ``training`` while a module runs.

    A layer kept whole may, as dropout does, if what a trace sees of it is the same in both modes. What reads
    ``vars(module)["training"]`` is not seen; the proof runs both modes.

    Args:
        module: the root of what will run.

    Attributes:
        found: whether the trace may depend on the mode.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.found = any(map(_decides_itself, module.modules()))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within it, reads are noted, of any module."""

        def read(module: Any) -> Any:
            self.found = True
            attributes = vars(module)
            return attributes["training"] if "training" in attributes else type(module).__getattr__(module, "training")

        def write(module: Any, training: Any) -> None:
            self.found = True
            vars(module)["training"] = training

        # torch.nn.Module has no attribute of this name: each module has its own, and a class's property goes first.
        with patch.object(torch.nn.Module, "training", property(read, write), create=True):
            yield

    def of_layer(self, asked: Callable[[bool], Made], said: Callable[[Made], Any]) -> Made:
        """What a layer kept whole gives in the mode that it is in; its own reads count if the other gives otherwise.

        Args:
            asked: asks the layer; in the other mode, if it is told True.
            said: what a trace sees of what the layer gives.
        """
        before, self.found = self.found, False
        made = asked(False)
        if self.found and not before:
            try:
                self.found = said(asked(True)) != said(made)
            except Exception:  # whatever it raises in the other mode, it does something else there
                self.found = True
        self.found |= before
        return made


def _decides_itself(module: torch.nn.Module) -> bool:
    """Whether the flag ``training`` is not all that a mode is to a module."""
    if isinstance(module, torch.jit.ScriptModule) or not _DECIDING.isdisjoint(vars(module).keys() - {"training"}):
        return True
    classes = type(module).__mro__
    return any(not _DECIDING.isdisjoint(vars(cls)) for cls in classes[: classes.index(torch.nn.Module)])
