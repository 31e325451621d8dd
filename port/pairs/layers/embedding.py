"""torch.nn.Embedding ⇄ flax.nnx.Embed, port.nn.Embedding, flax.linen.Embed; EmbeddingBag ⇄ port.nn.EmbeddingBag."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.pairs.expression import Expression
from port.pairs.ops.axes import Last
from port.pairs.pair import LayerPair, ParamPair

PARAMS = (ParamPair("weight", "embedding"),)


def _is_plain(module: Any) -> bool:
    # With a table of one row Flax ignores the indices: each gives that row.
    looks_up = module.num_embeddings > 1
    return looks_up and module.padding_idx is None and module.max_norm is None and not module.scale_grad_by_freq


def _lacks(module: Any) -> tuple[str, ...]:
    """Describe a torch layer's options that Flax's Embed lacks."""
    effects = {
        "padding_idx": "its row gets no gradient",
        "max_norm": "rows with a larger norm are scaled to it, in the table itself, when they are looked up",
        "scale_grad_by_freq": "a row's gradient is divided by how often it was looked up",
    }
    options = [(name, getattr(module, name)) for name in effects]
    return tuple(
        f"{name}={value} in torch: {effects[name]}; Flax's Embed lacks it: use port.nn.Embedding({name}={value}) (W17)"
        for name, value in options
        if value is not None and value is not False
    )


def _arguments(module: Any) -> dict[str, Any]:
    return {"num_embeddings": module.num_embeddings, "features": module.embedding_dim}


def _initializers(module: Any) -> dict[str, Any]:
    return {"embedding_init": Expression("jax.nn.initializers.normal", (1.0,))}


def _options(module: Any) -> dict[str, Any]:
    names = ("num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq")
    return {name: getattr(module, name) for name in names}


def _bag_options(module: Any) -> dict[str, Any]:
    return {**_options(module), "mode": module.mode, "include_last_offset": module.include_last_offset}


_FLAXS = LayerPair(
    torch="torch.nn.Embedding",
    flax="flax.nnx.Embed",
    params=PARAMS,
    fits_torch=_is_plain,
    arguments=_arguments,
    initializers=_initializers,
    axes=Last(0, added=1),
    notes=("W17", "W23", "W24"),
)

PAIRS = (
    _FLAXS,
    replace(
        _FLAXS,
        flax="port.nn.Embedding",
        fits_torch=LayerPair.fits_torch,
        arguments=_options,
        initializers=LayerPair.initializers,
    ),
    replace(_FLAXS, fits_torch=lambda module: not _is_plain(module), lacks=_lacks),  # hand-written models
    replace(_FLAXS, flax="flax.linen.Embed", fits_torch=LayerPair.fits_torch, lacks=_lacks),
    LayerPair(
        torch="torch.nn.EmbeddingBag",
        flax="port.nn.EmbeddingBag",
        params=PARAMS,
        arguments=_bag_options,
        notes=("W17", "W24"),
    ),
)
