"""torchvision's models, all but the detectors, each with small inputs that leave every batch norm 16 values or more."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torchvision import models
from torchvision.models import efficientnet, regnet
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.optical_flow import raft
from torchvision.models.video import mvit
from torchvision.models.video.mvit import MViT

from .zoo.example import Given, floats

Build = Callable[[], torch.nn.Module]


@dataclass(frozen=True)
class Model:
    """One of torchvision's models, with what it is called with.

    Attributes:
        name: torchvision's, as ``list_models`` has it.
        family: of models whose code is the same.
        build: makes it.
        inputs: makes a call's arguments and keyword arguments.
        narrowed: empty, or what is smaller than in torchvision's own, so that float64 fits into memory and minutes.
        within: what has to be around its calls, so that torchvision's own code runs in float64; ``changed`` says what.
        changed: empty, or that, or why ``gain`` is not 1.
        gain: how much wider than by their fan-in the weights are drawn.
        whole: makes it as large as torchvision has it, for the same inputs, where ``build`` does not.
    """

    name: str
    family: str
    build: Build
    inputs: Callable[[], Given]
    narrowed: str = ""
    within: Callable[[], AbstractContextManager[Any]] = nullcontext
    changed: str = ""
    gain: float = 1.0
    whole: Build | None = None

    @property
    def full(self) -> Build:
        """Makes it with all of torchvision's widths, for the same inputs."""
        return self.whole or self.build


def _images(*shape: int) -> Callable[[], Given]:
    return lambda: ((floats(*shape),), {})


def _family(
    family: str, names: str, *shape: int, narrowed: dict[str, tuple[Build, str]] | None = None, **options: Any
) -> list[Model]:
    """Models of one kind, called with one image batch of this shape; ``narrowed`` says which are built otherwise."""
    smaller = narrowed or {}
    return [
        Model(
            name,
            family,
            smaller[name][0] if name in smaller else partial(_built, name, options),
            _images(*shape),
            smaller[name][1] if name in smaller else "",
            # What is narrower takes the same inputs; what is smaller takes smaller ones.
            whole=partial(_built, name, options) if "÷" in smaller.get(name, (None, ""))[1] else None,
        )
        for name in names.split()
    ]


def _built(name: str, options: dict[str, Any]) -> torch.nn.Module:
    if name.startswith("quantized_"):
        options = {"quantize": False, **options}
    if name.startswith(("deeplabv3_", "fcn_", "lraspp_")):
        options = {"weights_backbone": None, **options}
    return models.get_model(name, weights=None, **options)


# %% Narrower ones: as deep as torchvision's


def _convnext(divisor: int, channels: tuple[int, ...], depths: tuple[int, ...]) -> tuple[Build, str]:
    widths = [count // divisor for count in channels]
    blocks = [
        CNBlockConfig(width, after, depth)
        for width, after, depth in zip(widths, [*widths[1:], None], depths, strict=True)
    ]
    return lambda: ConvNeXt(blocks, stochastic_depth_prob=0.5), f"channels ÷ {divisor}"


def _efficientnet(arch: str, divisor: int, dropout: float, **options: Any) -> tuple[Build, str]:
    """The architecture's own blocks, narrower: for the first kind by its ``width_mult``."""
    settings, last = efficientnet._efficientnet_conf(arch, **options)
    blocks = [copy.copy(setting) for setting in settings]
    for block in blocks:
        block.input_channels //= divisor
        block.out_channels //= divisor
    norm = partial(torch.nn.BatchNorm2d, eps=1e-3)
    return (
        lambda: efficientnet.EfficientNet(blocks, dropout, last_channel=last and last // divisor, norm_layer=norm),
        f"channels ÷ {divisor}",
    )


def _regnet(divisor: int, **options: Any) -> tuple[Build, str]:
    params = regnet.BlockParams.from_init_params(**options)
    narrow = regnet.BlockParams(
        params.depths,
        [width // divisor for width in params.widths],
        [width // divisor for width in params.group_widths],
        params.bottleneck_multipliers,
        params.strides,
        params.se_ratio,
    )
    return lambda: regnet.RegNet(narrow), f"widths and group widths ÷ {divisor}"


def _vit(patch_size: int, num_layers: int, num_heads: int, hidden_dim: int, divisor: int) -> tuple[Build, str]:
    width = hidden_dim // divisor
    return lambda: models.VisionTransformer(
        image_size=224,
        patch_size=patch_size,
        num_layers=num_layers,
        num_heads=num_heads,
        hidden_dim=width,
        mlp_dim=4 * width,
    ), f"hidden_dim and mlp_dim ÷ {divisor}"


def _mvit(name: str) -> tuple[Build, str]:
    """Its builder fixes the clip's size; its class takes it."""
    clip = {"spatial_size": (64, 64), "temporal_size": 4}

    def build() -> torch.nn.Module:
        with patch.object(mvit, "MViT", lambda **options: MViT(**options | clip)):
            return models.get_model(name, weights=None)

    return build, "spatial_size=(64, 64), temporal_size=4"


def _flow(name: str) -> Model:
    """Two frames. Coarser ones than 128 pixels a side RAFT refuses."""
    updates = 2

    def inputs() -> Given:
        return (floats(2, 3, 128, 128), floats(2, 3, 128, 128, seed=1)), {"num_flow_updates": updates}

    return Model(
        name,
        "raft",
        partial(_built, name, {}),
        inputs,
        f"num_flow_updates={updates}",
        lambda: patch.object(raft, "make_coords_grid", _coords_grid),
        "make_coords_grid gives the default dtype: with torchvision's float32 the model does not run in float64",
    )


def _coords_grid(batch_size: int, h: int, w: int, device: Any = "cpu") -> torch.Tensor:
    """torchvision's, but for the dtype."""
    coords = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    coords = torch.stack(coords[::-1], dim=0).to(torch.get_default_dtype())
    return coords[None].repeat(batch_size, 1, 1, 1)


# %% The table

_SIDE = (4, 3, 64, 64)
_TWO = (2, 3, 64, 64)
_CLIP = (2, 3, 4, 64, 64)

_CLASSIFICATION = [
    *_family("alexnet", "alexnet", *_SIDE),
    *_family(
        "convnext",
        "convnext_tiny convnext_small convnext_base convnext_large",
        *_TWO,
        narrowed={
            "convnext_base": _convnext(2, (128, 256, 512, 1024), (3, 3, 27, 3)),
            "convnext_large": _convnext(4, (192, 384, 768, 1536), (3, 3, 27, 3)),
        },
    ),
    *_family("densenet", "densenet121 densenet161 densenet169 densenet201", *_SIDE),
    *_family(
        "efficientnet",
        " ".join(f"efficientnet_b{number}" for number in range(8)),
        *_SIDE,
        narrowed={
            "efficientnet_b4": _efficientnet("efficientnet_b4", 2, 0.4, width_mult=1.4, depth_mult=1.8),
            "efficientnet_b5": _efficientnet("efficientnet_b5", 2, 0.4, width_mult=1.6, depth_mult=2.2),
            "efficientnet_b6": _efficientnet("efficientnet_b6", 2, 0.5, width_mult=1.8, depth_mult=2.6),
            "efficientnet_b7": _efficientnet("efficientnet_b7", 4, 0.5, width_mult=2.0, depth_mult=3.1),
        },
    ),
    *_family(
        "efficientnet_v2",
        "efficientnet_v2_s efficientnet_v2_m efficientnet_v2_l",
        *_SIDE,
        narrowed={
            "efficientnet_v2_m": _efficientnet("efficientnet_v2_m", 2, 0.3),
            "efficientnet_v2_l": _efficientnet("efficientnet_v2_l", 4, 0.4),
        },
    ),
    *_family("googlenet", "googlenet", *_SIDE, init_weights=False),
    # The auxiliary head takes 299 pixels; at 395 its convolution without padding leaves 3 × 3 places.
    *_family("inception", "inception_v3", 2, 3, 395, 395, init_weights=False),
    *_family("maxvit", "maxvit_t", 2, 3, 224, 224),
    *_family("mnasnet", "mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3", *_SIDE),
    *_family("mobilenet_v2", "mobilenet_v2", *_SIDE),
    *_family("mobilenet_v3", "mobilenet_v3_small mobilenet_v3_large", *_SIDE),
    *_family(
        "regnet",
        "regnet_y_400mf regnet_y_800mf regnet_y_1_6gf regnet_y_3_2gf regnet_y_8gf regnet_y_16gf regnet_y_32gf "
        "regnet_y_128gf regnet_x_400mf regnet_x_800mf regnet_x_1_6gf regnet_x_3_2gf regnet_x_8gf regnet_x_16gf "
        "regnet_x_32gf",
        *_SIDE,
        narrowed={
            "regnet_y_16gf": _regnet(2, depth=18, w_0=200, w_a=106.23, w_m=2.48, group_width=112, se_ratio=0.25),
            "regnet_y_32gf": _regnet(4, depth=20, w_0=232, w_a=115.89, w_m=2.53, group_width=232, se_ratio=0.25),
            "regnet_y_128gf": _regnet(8, depth=27, w_0=456, w_a=160.83, w_m=2.52, group_width=264, se_ratio=0.25),
            "regnet_x_32gf": _regnet(4, depth=23, w_0=320, w_a=69.86, w_m=2.0, group_width=168),
        },
    ),
    *_family("resnet", "resnet18 resnet34 resnet50 resnet101 resnet152", *_SIDE),
    *_family("resnet", "resnext50_32x4d resnext101_32x8d resnext101_64x4d wide_resnet50_2 wide_resnet101_2", *_SIDE),
    *_family("shufflenet", "shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0", *_SIDE),
    *_family("squeezenet", "squeezenet1_0 squeezenet1_1", *_TWO),
    *_family("swin", "swin_t swin_s swin_b", *_TWO),
    *_family("swin_v2", "swin_v2_t swin_v2_s swin_v2_b", *_TWO),
    *_family("vgg", "vgg11 vgg13 vgg16 vgg19", 2, 3, 32, 32),
    *_family("vgg_bn", "vgg11_bn vgg13_bn vgg16_bn vgg19_bn", *_SIDE),
    *_family("vit", "vit_b_16", 2, 3, 224, 224, narrowed={"vit_b_16": _vit(16, 12, 12, 768, 2)}),
    *_family("vit", "vit_b_32", 2, 3, 224, 224, narrowed={"vit_b_32": _vit(32, 12, 12, 768, 2)}),
    *_family("vit", "vit_l_16", 2, 3, 224, 224, narrowed={"vit_l_16": _vit(16, 24, 16, 1024, 4)}),
    *_family("vit", "vit_l_32", 2, 3, 224, 224, narrowed={"vit_l_32": _vit(32, 24, 16, 1024, 4)}),
    *_family("vit", "vit_h_14", 2, 3, 224, 224, narrowed={"vit_h_14": _vit(14, 32, 16, 1280, 8)}),
]

_VIDEO = [
    *_family("video_resnet", "r3d_18 mc3_18 r2plus1d_18", *_CLIP),
    # Its last pooling takes windows of 2 × 7 × 7, which is what 13 frames of 209 pixels leave.
    Model(
        "s3d",
        "s3d",
        partial(_built, "s3d", {}),
        _images(1, 3, 13, 209, 209),
        changed="weights drawn twice as wide: else what it sees fades to a constant in evaluation, and which of equal "
        "values a maximum is of is rounding",
        gain=2.0,
    ),
    *_family("mvit", "mvit_v1_b", *_CLIP, narrowed={"mvit_v1_b": _mvit("mvit_v1_b")}),
    *_family("mvit", "mvit_v2_s", *_CLIP, narrowed={"mvit_v2_s": _mvit("mvit_v2_s")}),
    *_family("swin3d", "swin3d_t swin3d_s swin3d_b", *_CLIP),
]

_SEGMENTATION = [
    *_family("fcn", "fcn_resnet50 fcn_resnet101", 2, 3, 32, 32),
    # A batch norm behind a global pooling sees one value a sample.
    *_family("deeplabv3", "deeplabv3_mobilenet_v3_large deeplabv3_resnet50 deeplabv3_resnet101", 16, 3, 32, 32),
    *_family("lraspp", "lraspp_mobilenet_v3_large", *_SIDE),
]

_QUANTIZATION = [
    *_family("quantized_googlenet", "quantized_googlenet", *_SIDE, init_weights=False),
    *_family("quantized_inception", "quantized_inception_v3", 2, 3, 395, 395, init_weights=False),
    *_family("quantized_mobilenet_v2", "quantized_mobilenet_v2", *_SIDE),
    *_family("quantized_mobilenet_v3", "quantized_mobilenet_v3_large", *_SIDE),
    *_family(
        "quantized_resnet",
        "quantized_resnet18 quantized_resnet50 quantized_resnext101_32x8d quantized_resnext101_64x4d",
        *_SIDE,
    ),
    *_family(
        "quantized_shufflenet",
        "quantized_shufflenet_v2_x0_5 quantized_shufflenet_v2_x1_0 quantized_shufflenet_v2_x1_5 "
        "quantized_shufflenet_v2_x2_0",
        *_SIDE,
    ),
]

MODELS: dict[str, Model] = {
    model.name: model
    for model in (*_CLASSIFICATION, *_VIDEO, *_SEGMENTATION, _flow("raft_large"), _flow("raft_small"), *_QUANTIZATION)
}
"""All of them by name."""
