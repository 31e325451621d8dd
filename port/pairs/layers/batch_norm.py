"""torch.nn.BatchNorm1d, 2d, 3d and SyncBatchNorm ⇄ port.nn.BatchNorm, flax.nnx.BatchNorm, flax.linen.BatchNorm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from port.pairs.pair import LayerPair, ParamPair

_SHARED = (
    ParamPair("weight", "scale"),
    ParamPair("bias", "bias"),
    ParamPair("running_mean", "mean", collection="batch_stats"),
    ParamPair("running_var", "var", collection="batch_stats"),
)
# State dicts from before torch 0.4.1 lack it.
_COUNT = ParamPair("num_batches_tracked", "num_batches_tracked", collection="batch_stats", optional=True)


def _arguments(module: Any) -> dict[str, Any]:
    return {
        "num_features": module.num_features,
        "eps": module.eps,
        "momentum": module.momentum,
        "use_scale": module.weight is not None,
        "use_bias": module.bias is not None,
        "track_running_stats": module.track_running_stats,
    }


def _batch_norm(name: str) -> Iterator[LayerPair]:
    ports = LayerPair(
        torch=f"torch.nn.{name}",
        flax="port.nn.BatchNorm",
        params=(*_SHARED, _COUNT),
        arguments=_arguments,
        channels=1,
        notes=("W7", "W8", "W9"),
    )
    yield ports
    for flaxs in ("flax.nnx.BatchNorm", "flax.linen.BatchNorm"):
        yield replace(
            ports, flax=flaxs, params=_SHARED, arguments=LayerPair.arguments, torch_only=("num_batches_tracked",)
        )


# SyncBatchNorm has the same twin: under jit a batch sharded over devices is still one batch; under pmap or shard_map
# set axis_name.
PAIRS = tuple(
    pair for name in ("BatchNorm2d", "BatchNorm1d", "BatchNorm3d", "SyncBatchNorm") for pair in _batch_norm(name)
)
