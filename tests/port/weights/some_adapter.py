"""A model in torch and in Flax, and a LoRA adapter of it as PEFT computes and writes it; PEFT itself is not needed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx
from safetensors.numpy import save_file

CONFIG: dict[str, Any] = {
    "peft_type": "LORA",
    "base_model_name_or_path": "someone/net",
    "r": 2,
    "lora_alpha": 3,
    "target_modules": ["up", "down"],
    "rank_pattern": {"blocks.1.up": 4},
    "alpha_pattern": {"down": 5},
    "use_rslora": False,
    "fan_in_fan_out": False,
    "bias": "none",
    "lora_dropout": 0.0,
    "modules_to_save": ["head"],
    "init_lora_weights": True,
    "use_dora": False,
}
# Of each module: the rank, and what the product is multiplied by.
FACTORS = {
    "blocks.0.up": (2, 1.5),
    "blocks.0.down": (2, 2.5),
    "blocks.1.up": (4, 0.75),
    "blocks.1.down": (2, 2.5),
}


class TorchBlock(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(6, 10)
        self.down = torch.nn.Linear(10, 6, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.tanh(self.up(x)))


class Torch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(11, 6)
        self.blocks = torch.nn.ModuleList([TorchBlock(), TorchBlock()])
        self.head = torch.nn.Linear(6, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Block(nnx.Module):
    def __init__(self, **given: Any) -> None:
        self.up = nnx.Linear(6, 10, **given)
        self.down = nnx.Linear(10, 6, use_bias=False, **given)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.down(jnp.tanh(self.up(x)))


class Net(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs, param_dtype: Any = jnp.float32) -> None:
        given: dict[str, Any] = {"rngs": rngs, "param_dtype": param_dtype}
        self.tokens = nnx.Embed(11, 6, **given)
        self.blocks = nnx.List([Block(**given), Block(**given)])
        self.head = nnx.Linear(6, 5, **given)

    def __call__(self, ids: jax.Array) -> jax.Array:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Adapted(torch.nn.Module):
    """``base(x) + scaling · lora_B(lora_A(x))``, as PEFT computes it; its tensors have PEFT's names."""

    def __init__(self, base: torch.nn.Linear, rank: int, scaling: float) -> None:
        super().__init__()
        self.base_layer, self.scaling = base, scaling
        self.lora_A = torch.nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = torch.nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base_layer(x) + self.scaling * self.lora_B(self.lora_A(x))


def written(folder: Path) -> tuple[Path, Path, Torch]:
    """The model's weights, the adapter's folder, and the model with the adapter in it."""
    torch.manual_seed(5)
    module = Torch().double()
    base = {name: tensor.detach().numpy().copy() for name, tensor in module.state_dict().items()}
    save_file(base, folder / "base.safetensors")
    with torch.no_grad():
        for parameter in module.head.parameters():
            parameter.add_(1)  # the adapter holds the head whole
    for path, (rank, scaling) in FACTORS.items():
        above, _, name = path.rpartition(".")
        adapted = Adapted(module.get_submodule(path), rank, scaling).double()
        setattr(module.get_submodule(above), name, adapted)
    write_folder(folder / "adapter", arrays_of(module))
    return folder / "base.safetensors", folder / "adapter", module


def arrays_of(module: Torch) -> dict[str, np.ndarray]:
    """What PEFT would save of the model."""
    return {
        f"base_model.model.{name}": tensor.detach().numpy().copy()
        for name, tensor in module.state_dict().items()
        if re.search(r"lora_|^head\.", name)
    }


def write_folder(folder: Path, arrays: dict[str, np.ndarray], **config: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | config))
    save_file(arrays, folder / "adapter_model.safetensors", {"format": "pt"})
    return folder


def changed(adapter: Path, arrays: dict[str, np.ndarray], **config: Any) -> Path:
    """The adapter written anew beside it, with other tensors or another config."""
    return write_folder(adapter.with_name("changed"), arrays, **config)
