"""Functions with PyTorch's semantics and the names of torch.nn.functional; channels and classes are the last axis."""

from port.nn.functional.activation import (
    celu,
    hardshrink,
    hardsigmoid,
    hardtanh,
    leaky_relu,
    log_softmax,
    softmax,
    softmin,
    softplus,
    softshrink,
    tanhshrink,
    threshold,
)
from port.nn.functional.attention import scaled_dot_product_attention
from port.nn.functional.average_pooling import adaptive_avg_pool, avg_pool, lp_pool
from port.nn.functional.binary_losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    multilabel_soft_margin_loss,
    soft_margin_loss,
)
from port.nn.functional.classification_losses import cross_entropy, nll_loss
from port.nn.functional.convolution import conv, conv_transpose
from port.nn.functional.ctc import ctc_loss
from port.nn.functional.decompositions import full_svd, matrix_rank, svd
from port.nn.functional.distance import cosine_similarity, pairwise_distance
from port.nn.functional.embedding_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from port.nn.functional.expectation import expect
from port.nn.functional.fold import fold, unfold
from port.nn.functional.grid import affine_grid, grid_sample
from port.nn.functional.kinks import std, vector_norm
from port.nn.functional.likelihood_losses import gaussian_nll_loss, kl_div, poisson_nll_loss
from port.nn.functional.linear_losses import linear_cross_entropy
from port.nn.functional.margin_losses import multi_margin_loss, multilabel_margin_loss
from port.nn.functional.max_pooling import adaptive_max_pool, fractional_max_pool, max_pool
from port.nn.functional.max_unpooling import max_unpool, unpool
from port.nn.functional.normalization import batch_norm, group_norm, instance_norm, layer_norm
from port.nn.functional.orders import kthvalue, mode, searchsorted
from port.nn.functional.padding import pad
from port.nn.functional.regression_losses import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from port.nn.functional.resize import interpolate
from port.nn.functional.response_norm import cross_map_lrn, local_response_norm
from port.nn.functional.sampling import warped
from port.nn.functional.scans import cummax, cummin
from port.nn.functional.shape import unflatten
from port.nn.functional.short_time import istft, stft
from port.nn.functional.shuffle import channel_shuffle, pixel_shuffle, pixel_unshuffle
from port.nn.functional.slopes import sloped
from port.nn.functional.special import zeta

__all__ = [
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "affine_grid",
    "avg_pool",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv",
    "conv_transpose",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "cross_map_lrn",
    "ctc_loss",
    "cummax",
    "cummin",
    "expect",
    "fold",
    "fractional_max_pool",
    "full_svd",
    "gaussian_nll_loss",
    "grid_sample",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "istft",
    "kl_div",
    "kthvalue",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "lp_pool",
    "margin_ranking_loss",
    "matrix_rank",
    "max_pool",
    "max_unpool",
    "mode",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "pad",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "scaled_dot_product_attention",
    "searchsorted",
    "sloped",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "std",
    "stft",
    "svd",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unflatten",
    "unfold",
    "unpool",
    "vector_norm",
    "warped",
    "zeta",
]
