"""torch.nn's losses ⇄ port.nn.functional, and two modules with weights.

For cross_entropy and nll_loss torch has the classes on axis 1 (axis 0 for a single row), the twins have them last: in
logits, log-probabilities and class probabilities, which are floats. Integer labels have no class axis, whatever their
rank, and neither has an unreduced loss. The other losses take the same layout on both sides; arrays that torch
broadcasts from the right (``pos_weight``, ``weight``, the variances of GaussianNLLLoss) follow the inputs' layout.

Modules convert the deprecated ``size_average`` and ``reduce`` to ``reduction`` when constructed; for calls of functions
see `reduction_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from port.pairs.pair import LayerPair, ParamPair, is_class, same


@dataclass(frozen=True)
class FunctionPair:
    """A torch function and its twin, by their public names; arguments have the same names on both sides.

    Attributes:
        torch: torch's function.
        jax: the twin.
        notes: ids of the relevant notes.
    """

    torch: str
    jax: str
    notes: tuple[str, ...] = ()


def reduction_of(size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> str:
    """Return the effective reduction; the two deprecated arguments override ``reduction`` if either is set."""
    if size_average is None and reduce is None:
        return "mean" if reduction == "elementwise_mean" else reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def _options(*names: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function that reads the reduction and these attributes of a torch loss as keywords."""
    return lambda module: {
        **{name: getattr(module, name) for name in names},
        "reduction": reduction_of(reduction=module.reduction),
    }


def _loss(
    layer: str, function: str, *options: str, buffers: tuple[str, ...] = (), notes: tuple[str, ...] = (), **more: Any
) -> LayerPair:
    return LayerPair(
        torch=f"torch.nn.{layer}",
        flax=f"port.nn.functional.{function}",
        params=same(*buffers, collection="batch_stats"),
        arguments=_options(*options),
        notes=notes,
        **more,
    )


_CLASSES: dict[str, Any] = {"channels": 1, "channel_inputs": (0, 1), "channel_outputs": False}


def _is_default(distance: Any) -> bool:
    if not is_class(type(distance), "torch.nn.PairwiseDistance"):
        return False
    return (distance.norm, distance.eps, distance.keepdim) == (2.0, 1e-6, False)


def _distance(module: Any) -> dict[str, Any]:
    distance = module.distance_function
    return {} if _is_default(distance) else {"distance_function": distance}


def _unknown_distance(module: Any) -> str | None:
    distance = module.distance_function
    if hasattr(distance, "parameters") and not list(distance.parameters()):
        return None
    return (
        f"its distance_function, {distance!r}, has no twin: only a torch module without parameters has one. Write it "
        "in JAX and call port.nn.functional.triplet_margin_with_distance_loss(..., distance_function=...)"
    )


def _linear_cross_entropy(module: Any) -> dict[str, Any]:
    weight, options = module.weight, module.options
    return {
        "in_features": module.linear.in_features,
        "num_classes": module.num_classes,
        "out_features": tuple(module.out_features),
        "use_bias": module.linear.bias is not None,
        "weight": None if weight is None else [1.0] * len(weight) if weight.is_meta else weight.tolist(),
        "reduction": reduction_of(reduction=module.reduction),
        "ignore_index": module.ignore_index,
        "label_smoothing": module.label_smoothing,
        # All of torch's heuristics become "auto": the chunk size changes memory, not the loss.
        "chunk_size": None if options is None else options.batch_chunk_size or "auto",
    }


PAIRS: tuple[LayerPair, ...] = (
    _loss("L1Loss", "l1_loss", notes=("G3",)),
    _loss("SmoothL1Loss", "smooth_l1_loss", "beta", notes=("G2",)),
    _loss("MSELoss", "mse_loss", notes=("G2",)),
    _loss("HuberLoss", "huber_loss", "delta", notes=("G2",)),
    _loss(
        "CrossEntropyLoss",
        "cross_entropy",
        "ignore_index",
        "label_smoothing",
        buffers=("weight",),
        notes=("G1",),
        **_CLASSES,
    ),
    _loss("NLLLoss", "nll_loss", "ignore_index", buffers=("weight",), notes=("G1",), **_CLASSES),
    _loss("GaussianNLLLoss", "gaussian_nll_loss", "full", "eps"),
    _loss("PoissonNLLLoss", "poisson_nll_loss", "log_input", "full", "eps"),
    _loss("KLDivLoss", "kl_div", "log_target"),
    _loss("BCELoss", "binary_cross_entropy", buffers=("weight",)),
    _loss("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", buffers=("weight", "pos_weight")),
    _loss("HingeEmbeddingLoss", "hinge_embedding_loss", "margin", notes=("G3",)),
    _loss("CosineEmbeddingLoss", "cosine_embedding_loss", "margin", notes=("G3",)),
    _loss("MarginRankingLoss", "margin_ranking_loss", "margin", notes=("G3",)),
    _loss("MultiMarginLoss", "multi_margin_loss", "p", "margin", buffers=("weight",)),
    _loss("MultiLabelMarginLoss", "multilabel_margin_loss"),
    _loss("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss", buffers=("weight",)),
    _loss("SoftMarginLoss", "soft_margin_loss"),
    _loss("TripletMarginLoss", "triplet_margin_loss", "margin", "p", "eps", "swap", notes=("G3",)),
    LayerPair(
        torch="torch.nn.TripletMarginWithDistanceLoss",
        flax="port.nn.functional.triplet_margin_with_distance_loss",
        arguments=lambda module: _options("margin", "swap")(module) | _distance(module),
        unfit=_unknown_distance,
        notes=("G3",),
    ),
    _loss("CTCLoss", "ctc_loss", "blank", "zero_infinity"),
    LayerPair(
        torch="torch.nn.LinearCrossEntropyLoss",
        flax="port.nn.LinearCrossEntropyLoss",
        params=(ParamPair("weight", "weight", collection="batch_stats"),),
        arguments=_linear_cross_entropy,
        channels=1,
        channel_inputs=(1,),
        channel_outputs=False,
        notes=("G1",),
    ),
    LayerPair(
        torch="torch.nn.AdaptiveLogSoftmaxWithLoss",
        flax="port.nn.AdaptiveLogSoftmaxWithLoss",
        arguments=lambda module: {
            "in_features": module.in_features,
            "n_classes": module.n_classes,
            "cutoffs": tuple(module.cutoffs[:-1]),
            "div_value": module.div_value,
            "head_bias": module.head_bias,
        },
    ),
)

FUNCTIONS: tuple[FunctionPair, ...] = tuple(
    FunctionPair(f"torch.nn.functional.{name}", f"port.nn.functional.{name}", notes)
    for name, notes in (
        ("l1_loss", ("G3",)),
        ("smooth_l1_loss", ("G2",)),
        ("mse_loss", ("G2",)),
        ("huber_loss", ("G2",)),
        ("cross_entropy", ("G1",)),
        ("nll_loss", ("G1",)),
        ("gaussian_nll_loss", ()),
        ("poisson_nll_loss", ()),
        ("kl_div", ()),
        ("binary_cross_entropy", ()),
        ("binary_cross_entropy_with_logits", ()),
        ("hinge_embedding_loss", ("G3",)),
        ("cosine_embedding_loss", ("G3",)),
        ("margin_ranking_loss", ("G3",)),
        ("multi_margin_loss", ()),
        ("multilabel_margin_loss", ()),
        ("multilabel_soft_margin_loss", ()),
        ("soft_margin_loss", ()),
        ("triplet_margin_loss", ("G3",)),
        ("triplet_margin_with_distance_loss", ("G3",)),
        ("ctc_loss", ()),
        ("linear_cross_entropy", ("G1",)),
    )
)
"""torch.nn.functional's losses. `linear_cross_entropy` takes its weight in another layout: see its docstring."""
