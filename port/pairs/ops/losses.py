"""Losses as functions; loss modules are paired in `port.pairs.losses`."""

from __future__ import annotations

from typing import Any

from port.pairs.ops.operator_pair import OperatorPair

_F = "torch.nn.functional."


def _loss(
    name: str,
    *variables: str,
    aten: str | None = None,
    by_name: tuple[str, ...] = (),
    jax: str = "",
    only_if: str = "",
    schema: dict[str, str] | None = None,
    **left_out: Any,
) -> OperatorPair:
    """Pair a loss of ``variables`` and of options with the same names in torch and `port.nn.functional`."""
    options = ", ".join(f"{option}={option}" for option in (*by_name, "reduction"))
    arguments = ", ".join(variables)
    return OperatorPair(
        f"{_F}{name}",
        f"aten.{name}" if aten is None else aten,
        f"{_F}{name}({arguments}, {options})",
        f"F.{name}({jax or arguments}, {options})",
        only_if=only_if,
        left_out={**left_out, "reduction": "mean"},
        schema=schema or {},
    )


_CLASSES = "jnp.moveaxis(input, 1, -1), target, weight"
_ENTROPY: dict[str, Any] = {"weight": None, "ignore_index": -100, "label_smoothing": 0.0}
_LIKELIHOOD: dict[str, Any] = {"weight": None, "ignore_index": -100}

PAIRS: tuple[OperatorPair, ...] = (
    _loss("mse_loss", "input", "target"),
    _loss("l1_loss", "input", "target"),
    _loss("smooth_l1_loss", "input", "target", by_name=("beta",), beta=1.0),
    _loss("huber_loss", "input", "target", by_name=("delta",), delta=1.0),
    # The classes are on axis 1 in torch, last here.
    *(
        _loss(
            "cross_entropy",
            *("input", "target", "weight"),
            aten="aten.cross_entropy_loss",
            by_name=("ignore_index", "label_smoothing"),
            jax=jax,
            only_if=only_if,
            **_ENTROPY,
        )
        for jax, only_if in (
            ("", "input.ndim <= 2"),
            (_CLASSES, "input.ndim > 2 and input.ndim > target.ndim"),
            ("jnp.moveaxis(input, 1, -1), jnp.moveaxis(target, 1, -1), weight", "input.ndim == target.ndim"),
        )
    ),
    *(
        _loss(
            "nll_loss",
            *("input", "target", "weight"),
            aten="aten.nll_loss_nd",
            by_name=("ignore_index",),
            jax=jax,
            only_if=only_if,
            **_LIKELIHOOD,
        )
        for jax, only_if in (("", "input.ndim <= 2"), (_CLASSES, "input.ndim > 2"))
    ),
    _loss("binary_cross_entropy", "input", "target", "weight", weight=None),
    _loss(
        "binary_cross_entropy_with_logits",
        *("input", "target", "weight"),
        by_name=("pos_weight",),
        weight=None,
        pos_weight=None,
    ),
    _loss("kl_div", "input", "target", by_name=("log_target",), only_if='reduction != "batchmean"', log_target=False),
    _loss(
        "poisson_nll_loss",
        "input",
        "target",
        by_name=("log_input", "full", "eps"),
        log_input=True,
        full=False,
        eps=1e-8,
    ),
    _loss("soft_margin_loss", "input", "target"),
    _loss("multilabel_margin_loss", "input", "target", only_if="input.ndim > 0"),
    _loss("hinge_embedding_loss", "input", "target", by_name=("margin",), margin=1.0),
    _loss("cosine_embedding_loss", "input1", "input2", "target", by_name=("margin",), margin=0.0),
    _loss("margin_ranking_loss", "input1", "input2", "target", by_name=("margin",), margin=0.0),
    _loss(
        "triplet_margin_loss",
        *("anchor", "positive", "negative"),
        by_name=("margin", "p", "eps", "swap"),
        margin=1.0,
        p=2.0,
        eps=1e-6,
        swap=False,
    ),
)
