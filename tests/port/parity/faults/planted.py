"""All models and all faults."""

from __future__ import annotations

from . import (
    encoder,
    formula,
    gpt,
    gru,
    images,
    linen_gpt,
    linen_mlp,
    linen_resnet,
    lstm,
    masks,
    mlp,
    norms,
    resnet,
    score,
    seq2seq,
    several,
    unet,
    vit,
)
from .fault import Fault, Twin

TWINS: tuple[Twin, ...] = (
    mlp.MLP,
    resnet.RESNET,
    unet.UNET,
    vit.VIT,
    gpt.GPT_TWIN,
    lstm.LSTM_TWIN,
    encoder.ENCODER,
    gru.GRU_TWIN,
    images.IMAGES,
    score.SCORE,
    norms.NORMS,
    masks.MASKS,
    formula.FORMULA,
    seq2seq.SEQ2SEQ,
    linen_mlp.MLP,
    linen_gpt.GPT_TWIN,
)
"""Those that are right; Linen's ResNet cannot be, as Linen has no BatchNorm with torch's running variance (W8)."""
FAULTS: tuple[Fault, ...] = (
    *mlp.FAULTS,
    *resnet.FAULTS,
    *unet.FAULTS,
    *vit.FAULTS,
    *gpt.FAULTS,
    *lstm.FAULTS,
    *encoder.FAULTS,
    *gru.FAULTS,
    *images.FAULTS,
    *score.FAULTS,
    *norms.FAULTS,
    *masks.FAULTS,
    *formula.FAULTS,
    *seq2seq.FAULTS,
    *linen_mlp.FAULTS,
    *linen_gpt.FAULTS,
    *linen_resnet.FAULTS,
    *several.FAULTS,
)
