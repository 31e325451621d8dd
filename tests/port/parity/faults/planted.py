"""All models and all faults."""

from __future__ import annotations

from . import encoder, gpt, lstm, mlp, resnet, unet, vit

TWINS = (mlp.MLP, resnet.RESNET, unet.UNET, vit.VIT, gpt.GPT_TWIN, lstm.LSTM_TWIN, encoder.ENCODER)
FAULTS = (
    *mlp.FAULTS,
    *resnet.FAULTS,
    *unet.FAULTS,
    *vit.FAULTS,
    *gpt.FAULTS,
    *lstm.FAULTS,
    *encoder.FAULTS,
)
