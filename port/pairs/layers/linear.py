"""torch.nn.Linear ⇄ nnx.Linear, nnx.LinearGeneral, linen.Dense, linen.DenseGeneral; Bilinear ⇄ port.nn.Bilinear."""

from __future__ import annotations

from math import prod
from typing import Any

from port.moves import Permute, Reshape
from port.pairs.layers.initial import torch_initializers
from port.pairs.ops.axes import Last
from port.pairs.pair import Facts, LayerPair, ParamPair

NOTES = ("W1", "W24")

# (out, in) → (in, out)
PARAMS = (ParamPair("weight", "kernel", (Permute((1, 0)),)), ParamPair("bias", "bias"))


def _arguments(module: Any) -> dict[str, Any]:
    return {
        "in_features": module.in_features,
        "out_features": module.out_features,
        "use_bias": module.bias is not None,
    }


def _initializers(module: Any) -> dict[str, Any]:
    return torch_initializers(module.in_features)


def _features(module: Any) -> dict[str, tuple[int, ...]]:
    return {"inputs": (module.in_features,), "outputs": (module.out_features,)}


def _general_params(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> tuple[ParamPair, ...]:
    into, out = prod(inputs), prod(outputs)
    return (
        ParamPair("weight", "kernel", (Permute((1, 0)), Reshape((into, out), (*inputs, *outputs)))),
        ParamPair("bias", "bias", (Reshape((out,), outputs),)),
    )


def _general_facts(module: Any) -> Facts:
    return {"inputs": tuple(module.in_features), "outputs": tuple(module.out_features)}


def _linen_general_facts(module: Any) -> Facts:
    # A Linen layer infers its features from the input; the parameters of a traced one show them.
    shape = module.variables["params"]["kernel"].shape
    count = len(module.features) if isinstance(module.features, tuple | list) else 1
    return {"inputs": tuple(shape[:-count]), "outputs": tuple(shape[-count:])}


def _bilinear_arguments(module: Any) -> dict[str, Any]:
    names = ("in1_features", "in2_features", "out_features")
    return {**{name: getattr(module, name) for name in names}, "bias": module.bias is not None}


PAIRS = (
    LayerPair(
        torch="torch.nn.Linear",
        flax="flax.nnx.Linear",
        params=PARAMS,
        arguments=_arguments,
        initializers=_initializers,
        axes=Last(),
        notes=NOTES,
    ),
    LayerPair(torch="torch.nn.Linear", flax="flax.linen.Dense", params=PARAMS, notes=NOTES),
    LayerPair(
        torch="torch.nn.Linear",
        flax="flax.nnx.LinearGeneral",
        # The Flax side determines how features are split into axes.
        params=_general_params,
        facts_of_torch=_features,
        facts_of_flax=_general_facts,
        fits_flax=lambda module: not module.batch_axis,
        notes=NOTES,
    ),
    LayerPair(
        torch="torch.nn.Linear",
        flax="flax.linen.DenseGeneral",
        params=_general_params,
        facts_of_torch=_features,
        facts_of_flax=_linen_general_facts,
        fits_flax=lambda module: not module.batch_dims,
        notes=NOTES,
    ),
    LayerPair(
        torch="torch.nn.Bilinear",
        flax="port.nn.Bilinear",
        params=(
            ParamPair("weight", "kernel", (Permute((1, 2, 0)),)),  # (out, in1, in2) → (in1, in2, out)
            ParamPair("bias", "bias"),
        ),
        arguments=_bilinear_arguments,
        notes=("W24",),
    ),
)
