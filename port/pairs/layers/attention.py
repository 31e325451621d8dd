"""torch.nn.MultiheadAttention ⇄ port.nn.MultiheadAttention, and Flax's, whose kernels have a head axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

from port.moves import Move, Permute, Reshape, Split
from port.pairs.pair import Facts, LayerPair, ParamPair, same

NOTES = ("W15", "W16", "W24", "W25")
PROJECTIONS = ("query", "key", "value")


def _arguments(module: Any) -> dict[str, Any]:
    return {
        "embed_dim": module.embed_dim,
        "num_heads": module.num_heads,
        "dropout": module.dropout,
        "bias": module.in_proj_bias is not None,
        "add_bias_kv": module.bias_k is not None,
        "add_zero_attn": module.add_zero_attn,
        "kdim": None if module.kdim == module.embed_dim else module.kdim,
        "vdim": None if module.vdim == module.embed_dim else module.vdim,
        "batch_first": module.batch_first,
    }


# out_proj is a linear layer on both sides: the pair of linear layers covers it.
TORCHS = LayerPair(
    torch="torch.nn.MultiheadAttention",
    flax="port.nn.MultiheadAttention",
    params=same(
        "in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k", "bias_v"
    ),
    arguments=_arguments,
    notes=NOTES,
)


# %% Flax's: query, key and value (features, heads, head_dim), out (heads, head_dim, features)


def _with_heads(features: int, heads: int, inputs: int) -> tuple[ParamPair, ...]:
    """Return the parameters, for the features of queries, the heads, and the features of keys and values."""
    apart = (heads, features // heads)
    split = Split(0, (features,) * 3)
    kernels = tuple(f"{name}.kernel" for name in PROJECTIONS)
    biases = tuple(f"{name}.bias" for name in PROJECTIONS)
    if inputs == features:  # torch packs the three into one
        weights = [("in_proj_weight", kernels, (split, *_kernel(features, apart)))]
    else:
        sizes = (features, inputs, inputs)
        names = [f"{name[0]}_proj_weight" for name in PROJECTIONS]
        weights = [
            (name, (path,), _kernel(size, apart)) for name, path, size in zip(names, kernels, sizes, strict=True)
        ]
    return (
        *(ParamPair(*weight) for weight in weights),
        ParamPair("in_proj_bias", biases, (split, Reshape((features,), apart))),
        ParamPair("out_proj.weight", "out.kernel", (Permute((1, 0)), Reshape((features,) * 2, (*apart, features)))),
        ParamPair("out_proj.bias", "out.bias"),
    )


def _kernel(inputs: int, apart: tuple[int, int]) -> tuple[Move, ...]:
    """(heads · head_dim, inputs) → (inputs, heads, head_dim)."""
    return Permute((1, 0)), Reshape((inputs, prod(apart)), (inputs, *apart))


def _facts(module: Any) -> Facts:
    return {"features": module.embed_dim, "heads": module.num_heads, "inputs": module.kdim}


def _nnx_facts(module: Any) -> Facts:
    return {"features": module.in_features, "heads": module.num_heads, "inputs": module.in_kv_features}


def _linen_facts(module: Any) -> Facts:
    # A Linen layer infers its features from the input; the parameters of a traced one show them.
    params = module.variables["params"]
    features, heads, _ = params["query"]["kernel"].shape
    return {"features": features, "heads": heads, "inputs": params["key"]["kernel"].shape[0]}


def _is_flaxs_too(module: Any) -> bool:
    """Whether Flax's attention can represent this torch layer: no added keys, and equal kdim and vdim."""
    return module.kdim == module.vdim and module.bias_k is None and not module.add_zero_attn


def _is_torchs_too(module: Any) -> bool:
    """Whether torch's attention can represent this Flax layer: equal heads and sizes, no query-key normalisation."""
    sizes = {module.in_features, module.qkv_features, module.out_features}
    return len(sizes) == 1 and module.num_kv_heads == module.num_heads and not module.normalize_qk


def _flaxs() -> Iterator[LayerPair]:
    layer = LayerPair(
        torch="torch.nn.MultiheadAttention",
        flax="flax.nnx.MultiHeadAttention",
        params=_with_heads,
        facts_of_torch=_facts,
        facts_of_flax=_nnx_facts,
        fits_torch=_is_flaxs_too,
        fits_flax=_is_torchs_too,
        notes=NOTES,
    )
    yield layer
    for name in ("MultiHeadDotProductAttention", "SelfAttention"):
        yield replace(
            layer,
            flax=f"flax.linen.{name}",
            facts_of_flax=_linen_facts,
            fits_flax=lambda module: not module.normalize_qk,
        )


PAIRS = (TORCHS, *_flaxs())
