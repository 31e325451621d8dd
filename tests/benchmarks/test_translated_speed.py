"""A step of a translated model beside one of the same structure written by hand, in one process, by turns.

Run with ``pytest -m benchmark -s -n 0``; prints the ratio. A step is forward and backward of a batch of 4 in float32,
jitted; the aim is at most 1.03 times the hand-written one's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torchvision
from flax import nnx

import port

from .handwritten_models import ResNet50, ViTB16

pytestmark = pytest.mark.benchmark
ROUNDS = 7


def step_of(module: Any) -> Callable[[jax.Array], None]:
    """Runs one step and waits for it."""
    module.train()
    graph, params, rest = nnx.split(module, nnx.Param, ...)

    @jax.jit
    def gradients(params: Any, rest: Any, images: jax.Array) -> Any:
        def loss(params: Any) -> Any:
            model = nnx.merge(graph, params, rest, copy=True)
            return jnp.square(model(images)).mean(), nnx.state(model, nnx.Not(nnx.Param))

        return jax.value_and_grad(loss, has_aux=True)(params)

    return lambda images: jax.block_until_ready(gradients(params, rest, images))


@pytest.mark.parametrize(
    ("build", "hand"),
    [(torchvision.models.resnet50, ResNet50), (torchvision.models.vit_b_16, ViTB16)],
    ids=("resnet50", "vit_b_16"),
)
def test_a_translated_model_is_as_fast_as_one_written_by_hand(
    build: Callable[[], torch.nn.Module], hand: Callable[..., Any]
) -> None:
    images = torch.randn(4, 3, 224, 224)
    translated = port.translate(build(), images, check=False)
    steps = {"translated": step_of(translated.build()), "by hand": step_of(hand(rngs=nnx.Rngs(0)))}
    batch = jnp.asarray(images.permute(0, 2, 3, 1).numpy())
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step(batch)  # compiles
    for _ in range(ROUNDS):
        for name, step in steps.items():
            began = time.perf_counter()
            step(batch)
            seconds[name].append(time.perf_counter() - began)
    least = {name: min(times) for name, times in seconds.items()}
    ratios = np.divide(seconds["translated"], seconds["by hand"])
    print(
        f"\n{build.__name__}: translated {least['translated']:.3f} s, by hand {least['by hand']:.3f} s a step; "
        f"ratio of the least {least['translated'] / least['by hand']:.3f}, median ratio {np.median(ratios):.3f}"
    )
