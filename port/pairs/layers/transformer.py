"""torch.nn.Transformer, its encoder, decoder and their layers ⇄ port.nn's, with the same parts and names.

They hold no parameters themselves: the pairs of attention, linear layers and norms cover those. If a part of a torch
layer was replaced after construction, no constructor arguments build its twin, and the pair reports it.
"""

from __future__ import annotations

import warnings
from typing import Any

from port.pairs.pair import LayerPair

NOTES = ("W10", "W11", "W12", "W16", "W24", "W25")
UNSEEN = ("num_heads", "dropout", "batch_first", "norm_first", "activation")
"""Attributes that do not appear in the repr of attention and the layers."""


# %% Layers


def _torchs_arguments(module: Any) -> dict[str, Any]:
    return {
        "d_model": module.self_attn.embed_dim,
        "nhead": module.self_attn.num_heads,
        "dim_feedforward": module.linear1.out_features,
        "dropout": module.dropout.p,
        "activation": module.activation,
        "layer_norm_eps": module.norm1.eps,
        "batch_first": module.self_attn.batch_first,
        "norm_first": module.norm_first,
        "bias": module.linear1.bias is not None,
    }


def _layer_arguments(module: Any) -> dict[str, Any]:
    return {**_torchs_arguments(module), "activation": _activation(module)}


def _activation(module: Any) -> Any:
    """Return port.nn's name of a layer's activation, or a torch module (for its twin), or None for other functions."""
    import torch

    activation = module.activation
    named = {torch.nn.functional.relu: "relu", torch.relu: "relu", torch.nn.functional.gelu: "gelu"}
    return activation if isinstance(activation, torch.nn.Module) else named.get(activation)


def _layer_unfit(module: Any) -> str | None:
    import torch

    if _activation(module) is None:
        return (
            f"its activation is {module.activation}: pass it as a module, torch.nn.SiLU() for torch.nn.functional.silu"
        )
    is_encoder = isinstance(module, torch.nn.TransformerEncoderLayer)
    cls = torch.nn.TransformerEncoderLayer if is_encoder else torch.nn.TransformerDecoderLayer
    changed = _changed(module, cls(**_torchs_arguments(module), device="meta"))
    return f"{', '.join(changed)}: not as constructed by torch.nn.{cls.__name__}" if changed else None


def _changed(module: Any, other: Any) -> list[str]:
    """Return the names of the innermost parts in which two modules differ."""
    left, right = ({name: _part(part) for name, part in m.named_modules() if name} for m in (module, other))
    # Only the innermost: modules that contain them differ too.
    names = [name for name in {**left, **right} if left.get(name) != right.get(name)]
    return [name for name in names if not any(inner.startswith(f"{name}.") for inner in names)]


def _part(part: Any) -> tuple[Any, ...]:
    import torch

    shapes = {name: tuple(parameter.shape) for name, parameter in part.named_parameters(recurse=False)}
    unseen = (getattr(part, name, None) for name in UNSEEN)
    return type(part), str(part), shapes, [value for value in unseen if not isinstance(value, torch.nn.Module)]


# %% Stacks


def _encoder_arguments(module: Any) -> dict[str, Any]:
    return {"encoder_layer": module.layers[0], "num_layers": _depth(module), "norm": module.norm}


def _decoder_arguments(module: Any) -> dict[str, Any]:
    return {"decoder_layer": module.layers[0], "num_layers": _depth(module), "norm": module.norm}


def _depth(module: Any) -> int:
    """Return the number of layers: num_layers if it is right, else their count."""
    return module.num_layers if module.num_layers == len(module.layers) else len(module.layers)


def _stack_unfit(module: Any) -> str | None:
    for number, layer in enumerate(module.layers):
        if _changed(layer, module.layers[0]) or _part(layer) != _part(module.layers[0]):
            return f"its layers are not copies of one: layer {number} differs from layer 0"
    return None


def _transformer_arguments(module: Any) -> dict[str, Any]:
    shared = {"d_model": module.d_model, "nhead": module.nhead, "batch_first": module.batch_first}
    if not _is_as_made(module):
        return {**shared, "custom_encoder": module.encoder, "custom_decoder": module.decoder}
    return {**_layer_arguments(module.encoder.layers[0]), **shared, **_counts(module)}


def _counts(module: Any) -> dict[str, Any]:
    return {f"num_{side}_layers": len(getattr(module, side).layers) for side in ("encoder", "decoder")}


def _is_as_made(module: Any) -> bool:
    """Whether torch's constructor builds both stacks without a custom encoder or decoder."""
    import torch

    if not isinstance(module.encoder, torch.nn.TransformerEncoder):
        return False
    if not isinstance(module.decoder, torch.nn.TransformerDecoder):
        return False
    first = module.encoder.layers[0]
    if not isinstance(first, torch.nn.TransformerEncoderLayer) or _activation(first) is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that nested tensors do not support it
        made = torch.nn.Transformer(**{**_torchs_arguments(first), **_counts(module)}, device="meta")
    return not _changed(module, made)


def _pair(name: str, arguments: Any, unfit: Any = LayerPair.unfit) -> LayerPair:
    return LayerPair(torch=f"torch.nn.{name}", flax=f"port.nn.{name}", arguments=arguments, unfit=unfit, notes=NOTES)


PAIRS = (
    _pair("TransformerEncoderLayer", _layer_arguments, _layer_unfit),
    _pair("TransformerDecoderLayer", _layer_arguments, _layer_unfit),
    _pair("TransformerEncoder", _encoder_arguments, _stack_unfit),
    _pair("TransformerDecoder", _decoder_arguments, _stack_unfit),
    _pair("Transformer", _transformer_arguments),
)
