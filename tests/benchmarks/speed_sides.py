"""One side of `test_translated_speed.py`, a process of its own that waits for its turns:

    python speed_sides.py translated resnet50 FOLDER    the written module
    python speed_sides.py by-hand resnet50 FOLDER       one of `handwritten_models.py`
    python speed_sides.py torchax resnet50 FOLDER       the original, in an environment with torchax

FOLDER/given.pt holds the weights and the images, ``{"state": state dict, "images": (N, 3, H, W)}``. Each line that it
reads is a request, ``WHAT`` or ``compile WHAT`` or ``result WHAT``, where WHAT is ``forward`` (evaluation) or ``step``
(training: forward, backward, running statistics); it answers with one line of JSON:

    forward           seconds of one run
    compile forward   those of tracing, and of compiling, with nothing in JAX's caches
    result forward    the outputs; of a step: the loss and the norm of all gradients

Seconds are two numbers: those of the clock, and those that all threads of the process computed, which other programs
disturb less. All sides call XLA alike: one jitted function of (parameters, other state, images), in float32.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import torch
import torchvision

# Nothing is drawn in a step: both sides then give the same numbers.
WITHOUT_DRAWS: dict[str, dict[str, float]] = {
    "mobilenet_v3_large": {"dropout": 0.0},
    "convnext_tiny": {"stochastic_depth_prob": 0.0},
}
Seconds = tuple[float, float]  # by the clock, by the process's threads
Functions = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]
"""What is jitted, and its arguments."""


def original(name: str) -> torch.nn.Module:
    """The model of torchvision's."""
    model: torch.nn.Module = getattr(torchvision.models, name)(**WITHOUT_DRAWS.get(name, {}))
    return model


def functions(forward: Callable[..., Any], train: Callable[..., Any], *arguments: Any) -> Functions:
    """Both functions of (parameters, other state, images); ``train`` gives outputs and new state."""

    def loss(*arguments: Any) -> Any:
        outputs, state = train(*arguments)
        return jnp.square(outputs).mean(), state

    return {"forward": (forward, arguments), "step": (jax.value_and_grad(loss, has_aux=True), arguments)}


# %% The sides


def torchax(name: str, given: dict[str, Any]) -> Functions:
    """The original, run by torchax as its documentation does: the functional call of a `JittableModule`."""
    from torchax import default_env, interop

    module = original(name)
    module.load_state_dict(given["state"])
    with default_env():
        held, images = interop.JittableModule(module.to("jax")), given["images"].to("jax")
    run = partial(interop.call_torch, partial(held.functional_call, "forward"))

    def mode(training: bool, *arguments: Any) -> Any:
        module.train(training)
        return (run(*arguments), None) if training else run(*arguments)

    return functions(partial(mode, False), partial(mode, True), *interop.jax_view((held.params, held.buffers, images)))


def nnx_functions(module: Any, images: torch.Tensor) -> Functions:
    """Those of a Flax module."""
    from flax import nnx

    def forward(graph: Any, params: Any, rest: Any, images: jax.Array) -> Any:
        return nnx.merge(graph, params, rest)(images)

    def train(graph: Any, params: Any, rest: Any, images: jax.Array) -> Any:
        model = nnx.merge(graph, params, rest, copy=True)
        return model(images), nnx.state(model, nnx.Not(nnx.Param))

    module.eval()
    evaluating = nnx.graphdef(module)
    module.train()
    training, params, rest = nnx.split(module, nnx.Param, ...)
    batch = jnp.asarray(images.permute(0, 2, 3, 1).numpy())
    return functions(partial(forward, evaluating), partial(train, training), params, rest, batch)


def translated(name: str, given: dict[str, Any]) -> Functions:
    """The written module, with the original's weights."""
    import port

    module = original(name)
    module.load_state_dict(given["state"])
    return nnx_functions(port.translate(module, given["images"], check=False).build(), given["images"])


def by_hand(name: str, given: dict[str, Any]) -> Functions:
    """As a person writes it, with weights of its own."""
    from flax import nnx
    from handwritten_models import MODELS

    return nnx_functions(MODELS[name](rngs=nnx.Rngs(0)), given["images"])


# %% Requests


def now() -> Seconds:
    """What both clocks say."""
    return time.perf_counter(), time.process_time()


def between(began: Seconds, ended: Seconds) -> Seconds:
    """Seconds from one to the other."""
    return ended[0] - began[0], ended[1] - began[1]


class Side:
    """Answers requests."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.compiled: dict[str, Callable[..., Any]] = {}

    def compile(self, what: str) -> dict[str, Seconds]:
        function, arguments = self.functions[what]
        jax.clear_caches()
        began = now()
        lowered = jax.jit(partial(function)).lower(*arguments)  # `partial`: a function that nothing remembers
        traced = now()
        self.compiled[what] = lowered.compile()
        return {"tracing": between(began, traced), "compiling": between(traced, now())}

    def run(self, what: str) -> Any:
        return jax.block_until_ready(self.compiled[what](*self.functions[what][1]))

    def seconds(self, what: str) -> Seconds:
        began = now()
        self.run(what)
        return between(began, now())

    def result(self, what: str) -> list[float]:
        given = self.run(what)
        if what == "forward":
            return [float(value) for value in given.ravel()]
        (loss, _), gradients = given
        squares = sum(float(jnp.square(leaf).sum()) for leaf in jax.tree.leaves(gradients))
        return [float(loss), squares**0.5]


def main(side: str, name: str, folder: str) -> None:
    given = torch.load(Path(folder) / "given.pt", weights_only=True)
    served = Side({"torchax": torchax, "translated": translated, "by-hand": by_hand}[side](name, given))
    print(json.dumps({"jax": jax.__version__, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        request, _, of = line.strip().partition(" ")
        answer = {"compile": served.compile, "result": served.result}[request](of) if of else served.seconds(request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
