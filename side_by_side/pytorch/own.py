"""A user's own model in PyTorch, trained by our trainer. Alone, to see its inputs and outputs:

    python -m side_by_side.pytorch.own

It takes floating images in [0, 1], channels first, (N, C, H, W), and gives logits, (N, classes).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from port.data import dataset_info
from port.errors import BrokenWeights, UsageError
from port.named import advice, arguments
from side_by_side.config import Config
from side_by_side.own import beside, cannot_take, check_result, found
from side_by_side.pytorch.model import scaled

# %% Images as it takes them


class OnImages:
    """Put before a model's own class: takes uint8 images, as our own models do."""

    def forward(self: Any, images: Tensor) -> Any:
        x = scaled(images, next(self.parameters()).dtype)  # (N, C, H, W)
        return super().forward(x)  # type: ignore[misc]


# %% Built


def draw_layouts(config: Config) -> tuple[Any, ...] | None:
    """The layouts of the JAX model's masks, if `port translate` wrote it; None: torch's layouts."""
    weights = beside(config.jax_model, ".safetensors")
    if weights is None:
        return None
    from port.translation import draw_layouts as layouts_of

    try:
        return layouts_of(weights)
    except BrokenWeights:
        return None  # weights for another model


def build_own(config: Config) -> nn.Module:
    """The user's model with the initial weights that its own code draws, float32.

    Raises:
        UsageError: it cannot be found or built, or does not fit the dataset.
    """
    assert config.torch_model is not None
    made, kwargs = found(config.torch_model, "--torch-model"), arguments(config.torch_kwargs, "--torch-kwargs")
    try:
        with torch.random.fork_rng(devices=[]):  # the caller's generator stays as it is
            torch.manual_seed(config.seed)
            model = made if isinstance(made, nn.Module) else made(**kwargs)
    except Exception as error:
        how = f"with {config.torch_kwargs}" if kwargs else "without arguments"
        raise UsageError(
            f"--torch-model: {config.torch_model} cannot be built {how}: {error}\n{advice(made, '--torch-kwargs')}"
        ) from error
    if not isinstance(model, nn.Module):
        raise UsageError(f"--torch-model: {config.torch_model} returns {type(model).__qualname__}, no torch.nn.Module")
    cls = type(model)
    model.__class__ = type(cls.__name__, (OnImages, cls), {"__module__": cls.__module__})
    _check_fit(config, model)
    return model


def _check_fit(config: Config, model: nn.Module) -> None:
    assert config.torch_model is not None
    info = dataset_info(config.dataset)
    height, width, channels = info.image_shape
    images = torch.zeros(2, channels, height, width, dtype=torch.uint8)
    model.eval()
    try:
        with torch.no_grad():
            logits = model(images)
    except Exception as error:
        raise cannot_take(error, "--torch-model", config.torch_model, tuple(images.shape), config.dataset) from error
    model.train()
    normed = next((name for name, layer in model.named_modules() if isinstance(layer, _BatchNorm)), None)
    if normed is not None and config.replicas > 1 and config.statistics == "synchronised":
        raise UsageError(
            f"--parallel {config.parallel}: {normed} of {config.torch_model} has batch statistics, each rank's own in "
            "torch, and the whole batch's in jit over a sharded batch (D5): take --parallel pmap or shard-map"
        )
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__qualname__
    check_result(shape, info.classes, "--torch-model", config.torch_model)


# %% Inputs and outputs


def main() -> None:
    """The script's model on two images of zeros."""
    config = Config(torch_model="side_by_side.pytorch.own:Small", jax_model="side_by_side.jax.own:Small")
    model = build_own(config).eval()
    logits = model(torch.zeros(2, 1, 8, 8, dtype=torch.uint8))
    print(f"{type(model).__name__}: {tuple(logits.shape)}, {sum(p.numel() for p in model.parameters())} parameters")


class Small(nn.Module):
    """One layer, as a user may write it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 10, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).mean((2, 3))


if __name__ == "__main__":
    main()
