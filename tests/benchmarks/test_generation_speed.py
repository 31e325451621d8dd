"""Tokens a second of greedy decoding: the written JAX model against ``generate`` of ``transformers``.

Run with ``pytest -m benchmark -s -n 0 tests/benchmarks/test_generation_speed.py``. Both sides have the same weights and
prompts, in float32 on the CPU, and must generate the same tokens. ``transformers`` uses its static cache, without
``torch.compile``, with all threads and with one, which is faster on a busy machine. The sides take turns; a time is the
least of all turns. The time of the prompt is not counted: it is that of a long text less that of a short one. Prints
each rate, the ratio to the faster of theirs, and the bytes of our caches.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.nn import generate, prefill
from port.translation.hub.hub_model import hub_model
from port.translation.hub.with_cache import with_cache
from port.translation.translating import translate

pytest.importorskip("transformers", reason="an extra of the tests'")
pytestmark = [pytest.mark.benchmark, pytest.mark.filterwarnings("ignore")]

SIZES = {
    "num_hidden_layers": 4,
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1024,
}
MODELS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": SIZES,
    "MistralForCausalLM": {**SIZES, "sliding_window": 64},
}
PROMPT, SHORT, LONG, ROOM = 32, 8, 104, 512
TURNS = 3


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@pytest.mark.parametrize("name", MODELS)
def test_tokens_a_second(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    hub = hub_model(f"transformers:{name}", MODELS[name])
    torch.manual_seed(0)
    module, original = with_cache(hub).build(), hub.build()
    with torch.no_grad():
        for one in module.parameters():
            one.add_(0.05 * torch.randn(one.shape))  # so that the likeliest tokens do not tie
    original.load_state_dict(module.state_dict())
    example = {"input_ids": torch.randint(0, 1024, (2, 11)), "position": torch.tensor(0), "places": torch.arange(24)}
    if "window_positions" in inspect.signature(module.forward).parameters:
        example["window_positions"] = torch.arange(13)
    model = translate(module, (), example, check=False).build()
    for batch in (1, 8):
        ids = np.random.default_rng(0).integers(0, 1024, (batch, PROMPT))

        def theirs(steps: int, ids: np.ndarray = ids) -> np.ndarray:
            tokens = torch.tensor(ids)
            with torch.no_grad():
                found = original.generate(
                    tokens,
                    attention_mask=torch.ones_like(tokens),
                    max_new_tokens=steps,
                    do_sample=False,
                    eos_token_id=[],
                    pad_token_id=0,
                    use_cache=True,
                    cache_implementation="static",
                    disable_compile=True,
                )
            return found.numpy()

        def ours(steps: int, ids: np.ndarray = ids) -> np.ndarray:
            return np.asarray(generate(model, jnp.asarray(ids), steps, room=ROOM))

        np.testing.assert_array_equal(ours(SHORT), theirs(SHORT))
        assert not np.array_equal(ours(SHORT)[:, PROMPT:], ours(SHORT)[:, PROMPT : PROMPT + 1].repeat(SHORT, 1))

        def with_one_thread(steps: int, theirs: Callable[[int], np.ndarray] = theirs) -> np.ndarray:
            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                return theirs(steps)
            finally:
                torch.set_num_threads(threads)

        sides = ours, theirs, with_one_thread
        seconds: dict[Any, list[float]] = {(side, steps): [] for side in sides for steps in (SHORT, LONG)}
        for _ in range(TURNS):
            for (side, steps), found in seconds.items():
                found.append(timed(partial(side, steps)))
        spent = [min(seconds[side, LONG]) - min(seconds[side, SHORT]) for side in sides]
        rates = [batch * (LONG - SHORT) / each for each in spent]
        _, caches = prefill(model, jnp.asarray(ids), ROOM)
        size = sum(each.nbytes for each in jax.tree.leaves(caches)) / 2**20
        with capsys.disabled():
            print(
                f"\n{name}, batch {batch}: JAX {rates[0]:,.0f} tokens a second, transformers {rates[1]:,.0f} "
                f"(one thread {rates[2]:,.0f}), ratio {rates[0] / max(rates[1:]):.2f}; caches {size:.2f} MiB"
            )
