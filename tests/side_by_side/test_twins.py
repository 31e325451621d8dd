"""The pairs read alike: the same files, the same definitions in the same order; and they compute alike."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
from flax import nnx

import side_by_side.jax.model as jax_model
import side_by_side.pytorch.model as torch_model
from port.mapping import between
from port.nn import DropoutMasks
from port.random import dropout_key, shared_dropout
from port.weights import arrays_of, load
from side_by_side.config import Config

ROOT = Path(torch_model.__file__).parents[1]
WRITTEN = {"whole_script.py"}
"""Its twin is a folder, which `port script` writes: `test_whole_script`."""
FILES = sorted(path.name for path in (ROOT / "pytorch").glob("*.py") if path.name not in WRITTEN)
# What one side alone needs: PyTorch keeps its state inside the model and the optimizer, and has one form of data
# parallelism, a process a replica; JAX has three, of devices that may be one process's.
ONLY_IN_JAX = {
    "train.py": {"TrainState"},
    "own.py": {"mapping_beside", "_axes", "_widen"},
    "processes.py": {
        *("local_devices", "_find_the_others", "_check_free", "_wait_for", "_alone", "_check_as_many"),
    },
    "sharded_replicas.py": {
        *("cut", *(f"FullySharded.{name}" for name in ("compile", "one", "local", "part", "_sharding_of"))),
    },
    "replicas.py": {
        *("_Mapped", "Pmap", "_OnMesh", "ShardMap", "Sharding"),
        *(f"Replicas.{name}" for name in ("devices", "compile", "one", "_shard", "local", "part", "first", "finish")),
    },
}
ONLY_IN_TORCH = {
    "own.py": {"draw_layouts"},
    "parallel.py": {"leave"},
    "checkpoint.py": {"write_file"},
    "sharded_checkpoint.py": {"_sharded", "_make_room", "_Reader", "_Unpickler"},
    "sharded_replicas.py": {"units", "called", "FullySharded.to_device", "FullySharded.accumulating"},
    "replicas.py": {"_SumOverRanks", "SynchronisedBatchNorm", "Replicas.to_device", "Replicas.accumulating"},
}


def definitions(path: Path, alone: set[str]) -> list[str]:
    """Top-level functions and classes, and the methods of classes, in order; __call__ is JAX's forward.

    Without those that are ``alone``: no other side has them.
    """
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in alone:
            names.append(node.name)
        if isinstance(node, ast.ClassDef) and node.name not in alone:
            methods = [child.name for child in node.body if isinstance(child, ast.FunctionDef)]
            names += [f"{node.name}.{'forward' if m == '__call__' else m}" for m in methods]
    return [name for name in names if name not in alone]


def titles(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.startswith("# %%")]


def test_both_sides_have_the_same_files():
    assert sorted(path.name for path in (ROOT / "jax").glob("*.py")) == FILES
    assert {"model.py", "data.py", "optimizer.py", "train.py", "script.py"} <= set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_the_same_definitions_in_the_same_order(file):
    in_jax = definitions(ROOT / "jax" / file, ONLY_IN_JAX.get(file, set()))
    assert in_jax == definitions(ROOT / "pytorch" / file, ONLY_IN_TORCH.get(file, set()))
    assert titles(ROOT / "jax" / file) == titles(ROOT / "pytorch" / file)


MODELS = {
    "mlp-by-hand": Config(model="mlp-by-hand", dataset="cifar10"),
    "mlp": Config(model="mlp", dataset="cifar10", dropout=0.4),
    "convnet": Config(model="convnet", dataset="cifar10"),
    "convnet on digits": Config(model="convnet", dataset="digits"),
    "convnet on mnist": Config(model="convnet", dataset="mnist"),
}
SHAPES = {"cifar10": (32, 32, 3), "digits": (8, 8, 1), "mnist": (28, 28, 1)}


@pytest.mark.parametrize(
    "training",
    [pytest.param(True, id="training"), pytest.param(False, id="evaluation", marks=pytest.mark.sweep)],
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.sweep) if name in ("convnet on digits", "convnet on mnist") else name
        for name in MODELS
    ],
)
def test_outputs_gradients_and_running_statistics_agree(name, training):
    config = MODELS[name]
    generator = np.random.default_rng(3)
    images = generator.integers(0, 256, (10, *SHAPES[config.dataset]), dtype=np.uint8)
    labels = generator.integers(0, 10, 10)

    theirs = torch_model.build(config).double().train(training)
    for tensor in theirs.buffers():  # running statistics away from 0 and 1
        if tensor.is_floating_point():
            tensor.add_(torch.rand(tensor.shape, generator=torch.Generator().manual_seed(1)).double())
    with jax.enable_x64(True):
        ours = jax_model.build(config, np.dtype("float64"))
        load(ours, arrays_of(theirs))
        _ = ours.train() if training else ours.eval()

        with shared_dropout(theirs, dropout_key(5, 2, x64=True)):
            loss = torch_model.cross_entropy(
                theirs(torch.from_numpy(images).permute(0, 3, 1, 2)), torch.from_numpy(labels)
            ).mean()
        loss.backward()

        @jax.jit
        @partial(jax.value_and_grad, has_aux=True)
        def loss_fn(params, rest, key):
            model = nnx.merge(graphdef, params, rest, copy=True)
            value = jax_model.cross_entropy(model(images, DropoutMasks(key)), labels).mean()
            return value, nnx.state(model, nnx.Not(nnx.Param))

        graphdef, params, rest = nnx.split(ours, nnx.Param, ...)
        key = jax.random.fold_in(jax.random.key(5), 2)
        (value, rest), gradients = loss_fn(params, rest, key)
        nnx.update(ours, gradients, rest)  # to carry the gradients over as if they were the weights
        carried = between(None, ours).inverse()(
            {".".join(map(str, path)): np.asarray(leaf[...]) for path, leaf in nnx.to_flat_state(nnx.state(ours))}
        )

    assert abs(loss.item() - value.item()) < 1e-12 * loss.item()
    for key, parameter in theirs.named_parameters():
        scale = parameter.grad.abs().max().item()
        np.testing.assert_allclose(carried[key], parameter.grad.numpy(), rtol=0, atol=1e-11 * max(scale, 1e-3))
    for key, buffer in theirs.named_buffers():
        np.testing.assert_allclose(carried[key], buffer.numpy(), rtol=1e-12)


def test_the_convnet_is_keras():
    """Layer shapes and parameter count of Keras' guide, for 28×28×1."""
    model = torch_model.build(Config(model="convnet", dataset="mnist"))
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert shapes["conv1.weight"] == (12, 1, 3, 3)
    assert shapes["conv2.weight"] == (24, 12, 6, 6)
    assert shapes["conv3.weight"] == (32, 24, 6, 6)
    assert "conv1.bias" not in shapes
    assert "conv3.bias" in shapes
    assert "norm1.weight" not in shapes
    assert shapes["fc1.weight"] == (256, 32)
    assert (model.norm1.eps, model.norm1.momentum, model.dropout.p) == (1e-3, 0.01, 0.5)
    per_layer = [108, 12, 10368, 24, 27680, 32, 8448, 2570]  # trainable, layer by layer
    assert sum(p.numel() for p in model.parameters()) == sum(per_layer)
