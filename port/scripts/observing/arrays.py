"""Arrays stored with the observation: the weights before the first update, and the models' inputs in each step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from port.scripts.observing.described import tensors_in
from port.scripts.observing.known_models import KnownModels

MOST_BYTES = 1 << 30
"""The largest size of each file, in bytes; larger files are left out, and the observation says so."""


class Arrays:
    """Copies of tensors, kept until the watched steps are over and then written as safetensors, never as pickles.

    Attributes:
        left_out: the files that would have been too large.

    Args:
        folder: the output folder: ``initial.safetensors`` has the models' parameters and buffers by the observation's
            names; ``inputs.safetensors`` has ``STEP.CALL.MODEL.ARGUMENT``, by the observation's step and call numbers.
        models: the script's models.
    """

    def __init__(self, folder: Path, models: KnownModels) -> None:
        self._folder = folder
        self._models = models
        self._files: dict[str, dict[str, torch.Tensor]] = {}
        self._sizes: dict[str, int] = {}
        self._is_written = False
        self.left_out: list[str] = []

    def take_weights(self, before: Mapping[int, torch.Tensor]) -> None:
        """Keep the weights of all models from before the first update; later calls change nothing.

        Args:
            before: a buffer's id → its value before the calls that lead to the first loss.
        """
        if "initial" not in self._files and not self._is_written:
            self._files["initial"] = {}
            for name, tensor in self._models.weights():
                self._keep("initial", name, before.get(id(tensor), tensor))

    def take_inputs(self, step: int, call: int, name: str, inputs: Any) -> None:
        """Keep the inputs of a model's call."""
        if not self._is_written:
            for path, tensor in tensors_in(inputs):
                self._keep("inputs", f"{step}.{call}.{name}.{path}", tensor)

    def write(self) -> None:
        """Write the files, once."""
        if self._is_written:
            return
        from safetensors.torch import save_file

        self._is_written = True
        for name, tensors in self._files.items():
            if tensors and name not in self.left_out:
                save_file(tensors, self._folder / f"{name}.safetensors")
        self._files.clear()

    def _keep(self, file: str, name: str, tensor: torch.Tensor) -> None:
        self._sizes[file] = self._sizes.get(file, 0) + tensor.numel() * tensor.element_size()
        if self._sizes[file] > MOST_BYTES or tensor.layout != torch.strided or tensor.is_meta:
            self._files[file] = {}
            if file not in self.left_out:
                self.left_out.append(file)
        elif file not in self.left_out:
            self._files.setdefault(file, {})[name] = tensor.detach().to("cpu", copy=True).contiguous()
