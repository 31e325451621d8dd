"""Two faults at once: at one place, where they make the two agree only together, and at two places."""

from __future__ import annotations

import jax

from . import gpt, mlp, vit
from .fault import Fault, fresh

FAULTS = (
    Fault(
        "two at two places: activation and scale",
        mlp.MLP,
        "drop",
        ("another-activation", "scale-missing"),
        {"scale": (), "last": jax.nn.sigmoid},
        all=True,
        also="fc3",
    ),
    Fault(
        "two in one layer: epsilon and mean",
        mlp.MLP,
        "norm",
        ("epsilon", "mean-not-subtracted"),
        {"norm": mlp.WithoutMean, "epsilon": 1e-3},
        all=True,
    ),
    Fault(
        "two at one place: scale and mask",
        gpt.GPT_TWIN,
        gpt.FIRST,
        ("scale-missing", "causal-mask-missing"),
        {"scale": 0.0, "mask": lambda n: jax.numpy.ones((n, n), bool)},
        all=True,
    ),
    Fault(
        "two at two places: activation and axis",
        mlp.MLP,
        "norm",
        ("tanh-gelu", "softmax-axis"),
        {"act": jax.nn.gelu, "axis": 0},
        all=True,
    ),
    Fault(
        "two at two places: positions and activation",
        gpt.GPT_TWIN,
        "positions",
        ("position-offset", "another-activation"),
        {"offset": 1, "act": jax.nn.gelu},
        all=True,
        also="blocks.0.down",
    ),
    Fault(
        "two at two places: epsilon and head order",
        vit.VIT,
        "blocks.0.norm1",
        ("epsilon", "head-order"),
        {"epsilon": 1e-5, "split": vit.head_outside},
        all=True,
        also=vit.FIRST,
    ),
    Fault(
        "two at two places: weights and activation",
        mlp.MLP,
        "fc1",
        ("weights-not-loaded", "tanh-gelu"),
        {"act": jax.nn.gelu},
        change=fresh("fc1.kernel"),
        all=True,
        also="norm",
    ),
)
