"""A new written module is initialised like the original."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torchvision
from flax import nnx
from torch import nn

import port
from port.errors import NoInitialValue, UsageError
from port.pairs.twin import build_twin
from port.translation import Translation
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.syntax import parsed, source
from port.translation.structure.init_inference.numbers import readable
from port.translation.structure.init_inference.starts import Initial, watched

from .distributions import assert_alike, differences, of_flax, planted
from .models import Language, Recurrent, Tables

SWEEP = pytest.mark.sweep


# %% Without a translation: what is written for one parameter


def expression(name: str, construct: Callable[[], nn.Module]) -> str:
    initial = Initial(watched(construct(), construct))
    tensor = dict(construct().named_parameters()).get(name, dict(construct().named_buffers()).get(name))
    made = initial.value(name, name, tensor, torchs(tensor.ndim))  # type: ignore[union-attr]
    return source(readable(made))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("jnp.arange(0, dim, 2)", "jnp.arange(0, dim, 2, dtype=param_dtype)"),
        ("1 / jnp.arange(dim)", "(1 / jnp.arange(dim)).astype(param_dtype)"),
    ],
)
def test_a_table_that_its_constructor_works_out(table: str, expected: str) -> None:
    made = Initial().value("table", "Net.table", torch.ones(3), torchs(1), None, parsed(table))
    assert source(made) == expected
    turned = Initial().value("table", "Net.table", torch.ones(3, 3), Layout((1, 0)), None, parsed(table))
    assert table not in source(turned)


class Probe(nn.Module):
    """Tables whose bounds are powers of two: of a fan, and the author's own; a kernel with LeCun's start, uncut."""

    def __init__(self) -> None:
        super().__init__()
        self.of_fans = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, 1, 768)))
        self.written = nn.Parameter(nn.init.uniform_(torch.empty(1, 1, 768), -0.125, 0.125))
        self.kernel = nn.Parameter(
            nn.init.trunc_normal_(torch.empty(24, 7), std=math.sqrt(1 / 24) / 0.87962566103423978)
        )


def drawn(source: str, seed: int) -> np.ndarray:
    names = {"nnx": nnx, "jnp": jnp, "port": port, "param_dtype": jnp.float32, "math": __import__("math")}
    return np.asarray(eval(source, names | {"rngs": nnx.Rngs(seed)}))


@pytest.mark.parametrize(
    ("construct", "name", "expected"),
    [
        (Tables, "token", "nnx.initializers.normal(0.5)"),
        (Tables, "stages.1.fc.weight", "truncated_normal(0.3 / math.sqrt(2), lower=-1.885618, upper=1.885618)"),
        (Tables, "stages.1.scale", "jnp.full((8,), 0.1, param_dtype)"),
        (Tables, "mask", "jnp.tril(jnp.ones((7, 7), param_dtype))"),
        (Language, "norms.0.weight", "jnp.ones((12,), param_dtype)"),
        (Language, "mlps.0.c_proj.weight", "nnx.initializers.normal(0.01)"),
        (Recurrent, "noise", "port.nn.torch_uniform(1.0, 3.0)"),
        (Probe, "of_fans", "variance_scaling(1.0, 'fan_out', 'uniform')"),
        (Probe, "written", "port.nn.torch_uniform(-0.125, 0.125)"),
        (Probe, "kernel", "variance_scaling(1.2924216342232246, 'fan_in', 'normal')"),
        (Recurrent, "lstm.bias_ih_l0", "patched(nnx.initializers.zeros, (jnp.s_[5:10], nnx.initializers.ones))"),
    ],
)
def test_what_is_written(construct: Callable[[], nn.Module], name: str, expected: str) -> None:
    source = expression(name, construct)
    assert expected in source
    assert drawn(source, 0).shape == dict(construct().state_dict(keep_vars=True), mask=torch.ones(7, 7))[name].shape


def test_of_a_layer_only_what_is_not_torchs_own_way_is_said() -> None:
    layers = kept_layers(Recurrent())
    initial = Initial(watched(Recurrent(), Recurrent), layers)
    said = {path: set().union(*initial.of_layer(path, path, layer)) for path, layer in layers.items()}
    assert said["second"] == set()
    assert said["first"] == said["third"] == {"kernel_init"}
    assert said["table"] == {"embedding"}
    assert said["lstm"] == {"weight_hh_l0", "bias_ih_l0", "bias_hh_l0"}
    assert said["attention"] == {"in_proj_weight"}
    assert not initial.unsaid


def test_a_part_of_an_orthogonal_matrix_is_none() -> None:
    def construct() -> nn.Module:
        layer = nn.Linear(5, 6)
        nn.init.orthogonal_(layer.weight)
        layer.weight.data[2].zero_()
        return nn.Sequential(layer)

    initial = Initial(watched(nn.Linear(2, 3), construct), kept_layers(construct()))
    initial.of_layer("0", "Net.0", construct()[0])  # type: ignore[index]
    assert set(initial.unsaid) == {"0.weight"}


def test_a_layer_loaded_from_elsewhere_is_not_guessed() -> None:
    before = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6))
    before[1].running_mean.data.normal_()

    def construct() -> nn.Module:
        made = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6))
        made.load_state_dict(before.state_dict())
        return made

    initial = Initial(watched(before, construct), kept_layers(before))
    for path, layer in kept_layers(before).items():
        initial.of_layer(path, path, layer)
    assert {"0.weight", "1.running_mean"} <= set(initial.unsaid)


def test_a_constructor_that_fails_is_said() -> None:
    def construct() -> nn.Module:
        raise RuntimeError("no such width")

    with pytest.raises(UsageError, match="construct fails: RuntimeError: no such width"):
        watched(nn.Linear(2, 3), construct)


class Wide(nn.Module):
    """Has a parameter of its own, and takes an argument."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.fc = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x * self.scale)


class Stack(nn.Module):
    """A stack of equal layers: of copies that its twin makes too, of copies with a start of their own, or anew."""

    def __init__(self, start: str) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
        if start == "own":
            nn.init.normal_(layer.linear1.weight, std=0.3)
        self.encoder = nn.TransformerEncoder(layer, 2)
        if start == "anew":
            for parameter in self.encoder.parameters():
                nn.init.normal_(parameter, std=0.2)
        self.first = nn.Linear(6, 5)
        self.second = copy.deepcopy(self.first)


@pytest.mark.parametrize(("start", "in_stack"), [("torch's", False), ("own", True), ("anew", False)])
def test_copies_are_named_unless_the_twin_makes_them_too(start: str, in_stack: bool) -> None:
    def construct() -> Stack:
        return Stack(start)

    module = construct()
    copies = Initial(watched(module, construct), kept_layers(module)).copies
    assert copies["second.weight"] == "first.weight"
    assert ("encoder.layers.1.linear1.weight" in copies) == in_stack
    twin = build_twin(module.encoder, rngs=nnx.Rngs(0))
    one, other = (layer.linear2.kernel[...] for layer in twin.layers)
    assert (one == other).all()


def test_values_are_never_looked_at() -> None:
    initial = Initial(watched(Wide(4), None))
    made = initial.value("scale", "Wide.scale", Wide(4).scale, torchs(1))
    with pytest.raises(NoInitialValue, match=r"Wide\.scale has no initial value.*construct="):
        drawn(source(made), 0)
    assert set(initial.unsaid) == {"scale"}


def test_a_class_that_takes_nothing_is_constructed() -> None:
    trained = Language()
    trained.norms[0].weight.data.normal_()
    assert "ones" in source(
        readable(Initial(watched(trained, None)).value("norms.0.weight", "", trained.norms[0].weight, torchs(1)))
    )
    assert not watched(nn.Linear(2, 3), None).starts


# %% Whole models


def translated(construct: Callable[[], nn.Module], *inputs: torch.Tensor) -> Translation:
    """Of a model that was trained, so that its values tell nothing of its start."""
    torch.manual_seed(0)
    trained = construct()
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return port.translate(trained, inputs, check=False, construct=construct)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], dict[str, tuple[str, str]]]] = {
    "language": (
        Language,
        (torch.randint(0, 40, (2, 9)),),
        {
            "a wrong spread": (r"normal\(0.02\)", "normal(0.03)"),
            "not scaled by depth": (r"normal\(0.01\)", "normal(0.02)"),
            "a uniform distribution": (r"normal\(0.02\)", "variance_scaling(0.0048, 'fan_in', 'uniform')"),
            "a norm drawn": (r"jnp.ones\(\(12,\), param_dtype\)", "1 + 0.01 * jax.random.normal(rngs.params(), (12,))"),
        },
    ),
    "tables": (
        Tables,
        (torch.randn(2, 7, 8),),
        {
            "zeros for a table": (r'TABLES.array\("positions", (.*?)\)\)', r"jnp.zeros(\1))"),
            "another's table": (r'"stages.1.waves"', '"stages.0.waves"'),
            "bounds left out": (r", lower=.*?, upper=[^)]*", ""),
        },
    ),
    "recurrent": (
        Recurrent,
        (torch.randint(0, 12, (3, 4)),),
        {
            "another row": (r"jnp.s_\[2\]", "jnp.s_[3]"),
            "another gate": (r"jnp.s_\[5:10\]", "jnp.s_[:5]"),
            "normal for orthogonal": (r"nnx.initializers.orthogonal\(scale=2.0\)", "nnx.initializers.normal(0.667)"),
        },
    ),
}


@SWEEP
@pytest.mark.daily(3)
@pytest.mark.parametrize("name", MODELS)
def test_a_new_module_starts_as_the_original(name: str) -> None:
    construct, inputs, faults = MODELS[name]
    translation = translated(construct, *inputs)
    assert_alike(translation, construct)
    source = translation.source
    for fault, (pattern, instead) in faults.items():
        assert differences(construct, of_flax(translation, source=planted(source, pattern, instead))), fault


_LARGE = "convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s inception_v3 maxvit_t swin_t swin_v2_t vgg11_bn"
_SMALL = "alexnet googlenet mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_y_400mf resnet18 resnext50_32x4d"
FAMILIES = f"{_LARGE} {_SMALL} shufflenet_v2_x0_5 squeezenet1_1 vit_b_16".split()


@SWEEP
@pytest.mark.daily(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_of_every_family_of_torchvisions_all_starts_are_said(name: str) -> None:
    options: dict[str, Any] = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    construct = partial(torchvision.models.get_model, name, **options)
    module = construct()
    layers = kept_layers(module)
    initial = Initial(watched(module, construct), layers)
    for path, layer in layers.items():
        initial.of_layer(path, path, layer)
    for key, tensor in (*module.named_parameters(), *module.named_buffers()):
        if not any(key.startswith(f"{path}.") for path in layers):
            initial.value(key, key, tensor, torchs(tensor.ndim))
    assert not initial.unsaid


@SWEEP
def test_one_that_cannot_be_new_is_loaded_all_the_same() -> None:
    translation = port.translate(Wide(4), torch.randn(2, 4))
    assert translation.proof is not None and translation.proof.agrees
    assert set(translation.without_start) == {"scale"}
    with pytest.raises(NoInitialValue):
        translation.build(filled=False)
    abstract = nnx.eval_shape(lambda: translation.code.Wide(4, rngs=nnx.Rngs(0)))
    assert abstract.scale.shape == (4,)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"Wide\.scale has no initial value"):
        jax.block_until_ready(nnx.state(nnx.jit(lambda: translation.code.Wide(4, rngs=nnx.Rngs(0)))()))
