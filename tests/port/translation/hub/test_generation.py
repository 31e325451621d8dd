"""Models of ``transformers`` with caches: what the original says without, the tokens of its own, planted faults.

`python tests/port/translation/hub/test_generation.py [MODEL …]` prints the table of what is measured.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from port.errors import UsageError
from port.nn import decode, generate, prefill
from port.translation.frontend.causal import check_causal
from port.translation.hub.hub_model import hub_model
from port.translation.hub.with_cache import with_cache
from port.translation.result import Translation
from port.translation.translating import translate

pytest.importorskip("transformers", reason="an extra of the tests'")

ROOM, PROMPT, SHORT, WINDOW = 520, 9, 3, 7
SMALL = {"num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "vocab_size": 61}
SHARED = {**SMALL, "num_key_value_heads": 2, "head_dim": 6}
ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": WINDOW}
MODELS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": SHARED,
    "MistralForCausalLM": {**SHARED, "sliding_window": WINDOW},
    "GPT2LMHeadModel": {"n_layer": 2, "n_embd": 16, "n_head": 4, "vocab_size": 61, "n_positions": ROOM},
    "Qwen2ForCausalLM": {**SMALL, "num_key_value_heads": 2, "layer_types": ["full_attention"] * 2},
    "Gemma2ForCausalLM": {**SHARED, **ALTERNATING, "query_pre_attn_scalar": 6, "final_logit_softcapping": 3.0},
    "Gemma3ForCausalLM": {**SHARED, **ALTERNATING, "query_pre_attn_scalar": 6},
    "GPTNeoXForCausalLM": SMALL,
    "PhiForCausalLM": {**SMALL, "num_key_value_heads": 4},
}


class InDouble(TorchFunctionMode):
    """Within it, what a model's own code computes in float32 is computed in float64."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args, kwargs = torch.utils._pytree.tree_map(_in_double, (args, kwargs or {}))
        return function(*args, **kwargs)


def _in_double(leaf: Any) -> Any:
    return torch.float64 if leaf is torch.float32 else leaf


@dataclass(frozen=True)
class Case:
    """A model on both sides.

    Attributes:
        original: of torch, in float64, without caches.
        made: its translation with caches.
    """

    original: Any
    made: Translation

    def model(self, change: Callable[[str], str] = lambda source: source) -> Any:
        """The Flax model, in float64 wherever the original's code says float32; its source may be changed."""
        from dataclasses import replace

        source = change(self.made.source.replace("jnp.float32", "jnp.float64"))
        return replace(self.made, source=source).build(param_dtype=jnp.float64)

    def logits(self, ids: np.ndarray) -> np.ndarray:
        with torch.no_grad(), InDouble():
            return self.original(input_ids=torch.tensor(ids)).logits.numpy()


@cache
def case(name: str) -> Case:
    fields = MODELS[name]
    model = with_cache(hub_model(f"transformers:{name}", fields))
    torch.manual_seed(0)
    module = model.build()
    with torch.no_grad():
        for one in module.parameters():
            one.add_(0.3 * torch.randn(one.shape))  # sharper than at the start: a fault is no rounding
    check_causal(module, name)
    example = {"input_ids": torch.randint(0, 61, (2, 11)), "position": torch.tensor(0), "places": torch.arange(24)}
    if "window_positions" in inspect.signature(module.forward).parameters:
        example["window_positions"] = torch.arange(13)
    made = translate(module, (), example, check=False)
    original = hub_model(f"transformers:{name}", fields).build()
    original.load_state_dict(module.state_dict())
    return Case(original.double(), made)


def text(rows: int = 2, tokens: int = ROOM) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 61, (rows, tokens))


def cached(model: Any, ids: np.ndarray, late: int = 0, prompt: int = PROMPT) -> np.ndarray:
    """Logits at every position: of a prompt at once, and of each token behind it; at positions that may be wrong."""
    logits, caches = prefill(model, ids[:, :prompt], ROOM)
    found = [np.asarray(logits)]
    for place in range(prompt, ids.shape[1]):
        logits, caches = decode(model, caches, ids[:, place : place + 1], jnp.asarray(place + late))
        found.append(np.asarray(logits))
    return np.concatenate(found, axis=1)


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@pytest.mark.sweep
@pytest.mark.parametrize("name", MODELS)
def test_logits_at_every_position(name: str, float64: None) -> None:
    one = case(name)
    assert difference(cached(one.model(), text()), one.logits(text())) < 1e-9
    assert difference(cached(one.model(), text(2, 24), prompt=SHORT), one.logits(text(2, 24))) < 1e-9


def tokens_apart(one: Case, prompt: np.ndarray, steps: int) -> tuple[int, float]:
    """How many of the original's own tokens are others than ours; and by how much its first choices led."""
    ids = torch.tensor(prompt)
    options = {"max_new_tokens": steps, "do_sample": False, "eos_token_id": [], "pad_token_id": 0}
    with torch.no_grad(), InDouble():
        theirs = one.original.generate(ids, attention_mask=torch.ones_like(ids), use_cache=False, **options).numpy()
    ours = np.asarray(generate(one.model(), jnp.asarray(prompt), steps))
    ordered = np.sort(one.logits(theirs)[:, PROMPT - 1 : -1], axis=-1)
    return int((ours != theirs).sum()), float((ordered[..., -1] - ordered[..., -2]).min())


@pytest.mark.sweep
@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_the_originals_own(name: str, float64: None) -> None:
    apart, lead = tokens_apart(case(name), text(2, PROMPT), 60)
    # transformers chooses in float32: a lead below its rounding is a tie, and decides nothing.
    assert lead > 1e-6, "the two likeliest tokens tie: take another seed"
    assert apart == 0


def caches_of(one: Case) -> list[jax.Array]:
    return prefill(one.model(), text()[:, :PROMPT], ROOM)[1]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "layers"), [("MistralForCausalLM", [WINDOW] * 2), ("Gemma2ForCausalLM", [WINDOW, ROOM])]
)
def test_layers_with_a_window_keep_its_tokens_alone(name: str, layers: list[int], float64: None) -> None:
    # (2 texts, 2 heads of keys and values, places, 6 features), in float64
    assert sum(each.nbytes for each in caches_of(case(name))) == sum(2 * 2 * 2 * places * 6 * 8 for places in layers)


LENGTHS = (9, 4, 14, 1)
"""Of the prompts of a padded batch: with the window, shorter and longer."""


def padded_tokens_apart(one: Case, steps: int, *, is_masked: bool = True) -> int:
    """Count the tokens of a padded batch that differ from those of the original's own ``generate``."""
    ids = text(len(LENGTHS), max(LENGTHS))
    mask = np.stack([np.arange(max(LENGTHS)) >= max(LENGTHS) - count for count in LENGTHS]).astype(int)
    options = {"max_new_tokens": steps, "do_sample": False, "eos_token_id": [], "pad_token_id": 0}
    with torch.no_grad(), InDouble():
        given = {"attention_mask": torch.tensor(mask), "use_cache": False}
        theirs = one.original.generate(torch.tensor(ids), **given, **options).numpy()
    ours = generate(one.model(), jnp.asarray(ids), steps, attention_mask=mask if is_masked else None)
    return int((np.asarray(ours) != theirs).sum())


@pytest.mark.sweep
@pytest.mark.parametrize("name", MODELS)
def test_padded_prompts_give_the_originals_tokens(name: str, float64: None) -> None:
    assert padded_tokens_apart(case(name), 30) == 0
    assert padded_tokens_apart(case(name), 30, is_masked=False) > 0  # the mask is read


def is_seen(name: str, change: Callable[[str], str], late: int = 0) -> bool:
    one, ids = case(name), text(2, 24)
    source = one.made.source
    assert late or change(source) != source, "nothing was changed"
    model, expected = one.model(change), one.logits(ids)
    # A full ring may be rotated: every place is seen. So one prompt is shorter than the window.
    return any(difference(cached(model, ids, late, prompt), expected) > 1e-4 for prompt in (SHORT, PROMPT))


FAULTS: dict[str, Callable[[str], str]] = {
    "place": lambda source: source.replace('states, cache["position"]', 'states, cache["position"] - 1'),
    "narrower window": lambda source: source.replace(f"- {WINDOW}", f"- {WINDOW - 1}"),
    "wider window": lambda source: source.replace(f"- {WINDOW}", f"- {WINDOW + 1}"),
    "smaller ring": lambda source: source.replace(f"window={WINDOW}", f"window={WINDOW - 1}"),
    "future": lambda source: source.replace("kv_indices <= q_indices", "kv_indices <= q_indices + 1"),
    "unfilled places": lambda source: source.replace("kv_indices <= q_indices", "kv_indices >= 0"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["MistralForCausalLM", "Gemma2ForCausalLM"])
def test_a_fault_is_seen(name: str, float64: None) -> None:
    assert not [fault for fault, change in FAULTS.items() if not is_seen(name, change)]
    assert is_seen(name, lambda source: source, late=1)


@pytest.mark.parametrize(
    ("target", "fields", "said"),
    [
        ("BertModel", {}, "does not generate text"),
        ("T5ForConditionalGeneration", {}, "an encoder with a decoder"),
        ("MambaForCausalLM", {}, "keeps the state of a convolution"),
    ],
)
def test_others_are_refused(target: str, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        with_cache(hub_model(f"transformers:{target}", fields))


def test_what_sees_the_future_is_refused() -> None:
    fields = {**SMALL, "is_decoder": False}
    model = with_cache(hub_model("transformers:BertLMHeadModel", fields))
    with pytest.raises(UsageError, match="BertLMHeadModel is not causal: the logits of token 0 of 19"):
        check_causal(model.build(), model.name)


def main() -> None:
    """Print the table."""
    jax.config.update("jax_enable_x64", True)
    print("| model | logits with caches | tokens apart of 120 | padded, of 120 | least lead | faults seen | KiB |")
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or MODELS:
        start = time.time()
        one = case(name)
        apart = difference(cached(one.model(), text()), one.logits(text()))
        other, lead = tokens_apart(one, text(2, PROMPT), 60)
        fitting = {fault: change for fault, change in FAULTS.items() if change(one.made.source) != one.made.source}
        seen = [is_seen(name, change) for change in fitting.values()] + [is_seen(name, lambda s: s, late=1)]
        padded = padded_tokens_apart(one, 30)
        size = sum(each.nbytes for each in caches_of(one)) / 1024
        figures = f"{apart:.1e} | {other} | {padded} | {lead:.0e} | {sum(seen)} of {len(seen)} | {size:.1f}"
        print(f"| {name} | {figures} |", flush=True)
        print(f"{time.time() - start:.0f} s, mixed: {one.made.mixed}", flush=True)


if __name__ == "__main__":
    main()
