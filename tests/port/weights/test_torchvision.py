"""All of torchvision's 121 models: every tensor is accounted for, by key and shape, and comes back bit for bit."""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
import torchvision
from torchvision.models.regnet import BlockParams

import port
from port.errors import WeightsMismatch
from port.mapping import TORCH_ONLY, Mapping, between
from port.weights.conversion import convert

EVERY = torchvision.models.list_models()
A_FEW = [
    "convnext_tiny",
    "fasterrcnn_mobilenet_v3_large_fpn",
    "mobilenet_v3_small",
    "raft_small",
    "regnet_y_400mf",
    "resnet18",
    "swin_t",
    "swin3d_t",
    "vit_b_16",
]
SMALL = ["mobilenet_v3_small", "raft_small", "shufflenet_v2_x0_5", "squeezenet1_1"]
"""Those that are converted by file: of a few million parameters, with grouped convolutions, norms of two kinds."""


def block_parameters(*given: Any, **options: Any) -> BlockParams:
    """RegNet's widths, which it computes by tensors and reads off: on the meta device there is nothing to read."""
    with torch.device("cpu"):
        return FROM_INIT_PARAMS(*given, **options)


FROM_INIT_PARAMS = BlockParams.from_init_params


def build(name: str, device: str) -> torch.nn.Module:
    """The model without pretrained weights. Quantizable ones are their plain selves until they are quantized."""
    options: dict[str, Any] = {"weights": None}
    if "rcnn" in name or name.startswith(("retinanet", "ssd", "fcos", "deeplab", "fcn", "lraspp")):
        options["weights_backbone"] = None
    if name.endswith(("googlenet", "inception_v3")):
        options["init_weights"] = False  # the other choice warns that it is slow
    with torch.device(device), mock.patch.object(BlockParams, "from_init_params", block_parameters):
        return torchvision.models.get_model(name, **options)


def assert_every_tensor_is_accounted_for(mapping: Mapping, module: torch.nn.Module) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    mapping.check(shapes)
    there = {
        path: shape
        for entry in mapping.entries
        for path, shape in zip(entry.targets, entry.target_shapes(), strict=True)
    }
    assert sum(map(math.prod, there.values())) == sum(map(math.prod, shapes.values()))
    inverse = mapping.inverse()
    inverse.check(there)
    back = {
        key: shape for entry in inverse.entries for key, shape in zip(entry.targets, entry.target_shapes(), strict=True)
    }
    assert back == shapes


@pytest.mark.parametrize("name", A_FEW)
def test_every_key_and_shape(name: str) -> None:
    module = build(name, "meta")
    assert_every_tensor_is_accounted_for(between(module), module)


def test_a_tensor_that_is_left_out_is_seen() -> None:
    module = build("resnet18", "meta")
    whole = between(module)
    with pytest.raises(WeightsMismatch, match=r"fc\.bias"):
        left_out = tuple(entry for entry in whole.entries if entry.sources != ("fc.bias",))
        assert_every_tensor_is_accounted_for(Mapping(left_out), module)


@pytest.mark.sweep
def test_there_are_as_many_models_as_are_said_here() -> None:
    assert len(EVERY) >= 121
    assert {*A_FEW, *SMALL} <= set(EVERY)


@pytest.mark.sweep
@pytest.mark.parametrize("name", EVERY)
def test_every_key_and_shape_of_every_model(name: str) -> None:
    module = build(name, "meta")
    assert_every_tensor_is_accounted_for(between(module), module)


def randomise_buffers(module: torch.nn.Module) -> None:
    """What torch begins with is zeros, ones and constants of many layers alike."""
    generator = torch.Generator().manual_seed(1)
    for buffer in module.buffers():
        if buffer.is_floating_point():
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
        elif buffer.ndim == 0:
            buffer.fill_(int(torch.randint(1, 1000, (), generator=generator)))


def equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    # NaN is not equal to itself, its bits are: some uninitialised memory may hold it.
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def assert_comes_back(state: dict[str, torch.Tensor], module: torch.nn.Module) -> None:
    expected = module.state_dict()
    assert list(state) == list(expected)
    wrong = [name for name, tensor in expected.items() if not equal_bits(state[name], tensor)]
    assert not wrong
    module.load_state_dict(state, strict=True)


@pytest.mark.daily(3)
@pytest.mark.sweep
@pytest.mark.parametrize("name", EVERY)
def test_every_model_comes_back_bit_for_bit(name: str) -> None:
    try:
        module = build(name, "cpu")
        randomise_buffers(module)
        # Back with nothing but structure to go by: what is not carried cannot be there.
        skeleton = build(name, "meta")
        variables = port.to_flax(module)
        assert_comes_back(port.to_torch(variables, like=skeleton), module)
    finally:
        gc.collect()


@pytest.mark.sweep
@pytest.mark.parametrize("name", SMALL)
def test_by_file_and_back(name: str, tmp_path: Path) -> None:
    module, skeleton = build(name, "cpu"), build(name, "meta")
    randomise_buffers(module)
    torch.save(module.state_dict(), tmp_path / "model.pt")
    convert(tmp_path / "model.pt", tmp_path / "flax.safetensors", torch=skeleton)
    convert(tmp_path / "flax.safetensors", tmp_path / "back.safetensors", torch=skeleton, reverse=True)
    back = port.weights.read_arrays(tmp_path / "back.safetensors")
    state = {key: torch.from_numpy(np.array(back[key])) for key in module.state_dict()}
    assert len(back) == len(state)
    assert_comes_back(state, module)


def test_a_model_comes_back_bit_for_bit() -> None:
    module, skeleton = build("mobilenet_v3_small", "cpu"), build("mobilenet_v3_small", "meta")
    randomise_buffers(module)
    variables = port.to_flax(module)
    assert TORCH_ONLY not in variables  # port.nn.BatchNorm has a home for everything
    assert_comes_back(port.to_torch(variables, like=skeleton), module)


def test_a_state_dict_that_comes_back_says_its_version() -> None:
    """MNASNet refuses one that does not."""
    module, another = build("mnasnet0_5", "cpu"), build("mnasnet0_5", "cpu")
    state = port.to_torch(port.to_flax(module), like=another)
    assert_comes_back(state, module)
    with pytest.raises(ValueError, match="version"):
        another.load_state_dict(dict(state))
    port.load(another, dict(module.state_dict()))
    assert_comes_back(state, another)


def test_two_tensors_in_each_others_place_are_seen() -> None:
    module, skeleton = build("mobilenet_v3_small", "cpu"), build("mobilenet_v3_small", "meta")
    randomise_buffers(module)
    variables = port.to_flax(module)
    norm = variables["batch_stats"]["features"]["0"]["1"]
    norm["mean"], norm["var"] = norm["var"], norm["mean"]
    with pytest.raises(AssertionError, match="running_mean"):
        assert_comes_back(port.to_torch(variables, like=skeleton), module)
