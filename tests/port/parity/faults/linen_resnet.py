"""The ResNet's twin in Linen."""

from __future__ import annotations

from typing import Any

import jax
from flax import linen

from .fault import Fault, LinenTwin, beneath, drawn
from .resnet import ResNet, average_pool, right_pool, zero_pool

Options = dict[str, Any]


def norm(options: Options, name: str, train: bool) -> linen.BatchNorm:
    given = {"momentum": 0.9, "epsilon": 1e-5, "use_fast_variance": False, **options.get("norm", {})}
    average = not train and not options.get("of_the_batch", False)
    return linen.BatchNorm(use_running_average=average, **given, name=name)


class LinenBlock(linen.Module):
    out: int
    stride: int
    options: Options

    @linen.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        act, stride = self.options.get("act", jax.nn.relu), self.stride
        padding = self.options.get("padding", 1)
        out = linen.Conv(self.out, (3, 3), strides=stride, padding=padding, use_bias=False, name="conv1")(x)
        out = act(norm(self.options, "bn1", train)(out))
        out = linen.Conv(self.out, (3, 3), padding=1, use_bias=False, name="conv2")(out)
        out = norm(self.options, "bn2", train)(out)
        short = linen.Conv(self.out, (1, 1), strides=stride, name="short")(x)
        return act(out + short if self.options.get("keep", True) else out)


class LinenResNet(linen.Module):
    """The same, (N, 16, 12, 3) → (N, 5); its BatchNorm keeps the biased variance, as Linen's own does."""

    options: Options

    @linen.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        stem = self.options.get("stem", 1)
        x = linen.Conv(4, (3, 3), strides=2, padding=stem, use_bias=False, name="stem")(x)
        x = self.options.get("pool", right_pool)(jax.nn.relu(norm(self.options, "bn", train)(x)) - 0.4)
        x = LinenBlock(4, 1, self.options, name="block1")(x, train)
        x = LinenBlock(6, 2, self.options, name="block2")(x, train)
        return linen.Dense(5, name="fc")(x.reshape(len(x), -1))


RESNET = LinenTwin(
    "ResNet, Linen", ResNet, lambda **options: LinenResNet(options), lambda: drawn(8, 3, 16, 12), fold={"fc": (6, 2, 2)}
)

FAULTS = (
    Fault("padding SAME at a stride", RESNET, "stem", ("padding-at-a-stride",), {"stem": "SAME"}),
    Fault(
        "kernel transposed as it is loaded",
        RESNET,
        "block1.conv1",
        ("kernel-transposed",),
        change=beneath("params.block1.conv1.kernel", lambda k: k.transpose(1, 0, 2, 3)),
    ),
    Fault("epsilon", RESNET, "bn", ("epsilon",), {"norm": {"epsilon": 1e-3}}),
    Fault(
        "momentum reversed",
        RESNET,
        "bn",
        ("momentum-reversed", "biased-running-variance"),
        {"norm": {"momentum": 0.1}},
    ),
    Fault("biased running variance", RESNET, "bn", ("biased-running-variance",)),
    Fault("running statistics not used", RESNET, "bn", ("running-statistics-not-used",), {"of_the_batch": True}),
    Fault(
        "running statistics not loaded",
        RESNET,
        "bn",
        ("running-statistics-not-loaded",),
        change=beneath("batch_stats.bn.mean", lambda mean: 0 * mean),
    ),
    Fault("max pool padded with zeros", RESNET, "block1.conv1", ("pool-padded-with-zeros",), {"pool": zero_pool}),
    Fault("average for max pool", RESNET, "block1.conv1", ("another-pooling",), {"pool": average_pool}),
    Fault("flatten order", RESNET, "fc", ("flatten-order",), fold=None),
    Fault("shortcut missing", RESNET, "block1", ("addition-missing",), {"keep": False}),
    Fault("LeakyReLU for ReLU", RESNET, "block1.conv2", ("another-activation",), {"act": jax.nn.leaky_relu}),
)
