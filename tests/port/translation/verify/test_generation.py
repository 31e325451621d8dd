"""The proof of generation, of models that know nothing of caches; and each fault that it has to catch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from torch import nn

import port
from port.errors import UsageError
from port.judging import Status
from port.nn import incremental, token_rows
from port.nn.token_cache import TokenCache
from port.translation.result import Translation
from port.translation.verify import Proof
from port.translation.verify.generation import with_own_generation

from ..zoo import gpt, llama


class Windowed(nn.Module):
    """Attention of grouped queries over the last five tokens, and positions of their own."""

    window = 5

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(17, 12), nn.Embedding(40, 12)
        self.query, self.pair, self.head = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 17)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        batch, count = ids.shape
        at = torch.arange(count, device=ids.device)
        x = self.tokens(ids) + self.places(at)
        query = self.query(x).view(batch, count, 4, 3).transpose(1, 2)
        key, value = self.pair(x).view(batch, count, 2, 2, 3).transpose(1, 3).unbind(2)
        seen = (at <= at[:, None]) & (at[:, None] - at < self.window)
        made = nn.functional.scaled_dot_product_attention(query * 5, key, value, seen, enable_gqa=True)
        return self.head(x + made.transpose(1, 2).reshape(batch, count, 12))


@cache
def written(name: str) -> tuple[nn.Module, Translation]:
    torch.manual_seed(0)
    module: nn.Module = {
        "windowed": Windowed,
        "llama": llama.Llama,
        "repeated": lambda: llama.Llama(by="repeat"),
        "gpt": lambda: gpt.GPT(tied=False),
        "gpt by hand": lambda: gpt.GPT(flash=False, tied=False),
    }[name]()
    with torch.no_grad():
        for one in module.parameters():
            one.add_(0.3 * torch.randn(one.shape))  # a fault is no rounding
    return module.eval(), port.translate(module, (torch.randint(0, 17, (3, 7)),), sizes_limit=0)


def proof_of(name: str) -> Proof:
    module, made = written(name)
    assert made.proof is not None
    found = with_own_generation(made.proof, module, made)
    assert len(found.rows) == len(made.proof.rows) + 2
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["windowed", "llama", "repeated", "gpt", "gpt by hand"])
def test_generation_is_proved(name: str) -> None:
    found = proof_of(name)
    assert found.agrees, str(found)


@pytest.fixture
def compiled_anew() -> Iterator[None]:
    """A fault is planted in what is compiled already."""
    jax.clear_caches()
    yield
    jax.clear_caches()


def _late_rows(right: Any) -> Any:
    def rows_of(read: Any, table: Any, axis: int) -> Any:
        if jnp.ndim(table) <= axis or table.shape[axis] != read.traced.length:
            return table
        return jax.lax.dynamic_slice_in_dim(table, read.position - (read.tokens == 1), read.tokens, axis)

    return rows_of


def _late_place(right: Any) -> Any:
    return lambda self, tokens, at, places: right(self, tokens, at - (tokens.shape[-2] == 1), places)


def _everything_seen(right: Any) -> Any:
    """Masks are of the last token: of a prompt, each sees those behind it and places that are not filled."""

    def rows_of(read: Any, table: Any, axis: int) -> Any:
        found = right(read, table, axis)
        return jnp.ones_like(found) if jnp.issubdtype(jnp.result_type(table), jnp.bool_) else found

    return rows_of


FAULTS: dict[str, tuple[list[tuple[Any, str]], Any]] = {
    "a position, and a row of the mask": ([(token_rows, "rows_of"), (incremental, "rows_of")], _late_rows),
    "a place in the cache": ([(TokenCache, "__call__")], _late_place),
    "a mask that shows all places": ([(token_rows, "rows_of")], _everything_seen),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["windowed"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(name: str, fault: str, monkeypatch: pytest.MonkeyPatch, compiled_anew: None) -> None:
    places, wrong = FAULTS[fault]
    for owner, attribute in places:
        monkeypatch.setattr(owner, attribute, wrong(getattr(owner, attribute)))
    found = proof_of(name)
    assert found.status is Status.DIFFER, str(found)
    assert "logits with caches, at every position" in [row.what for row in found.rows if not row.agrees]


@pytest.mark.sweep
@pytest.mark.parametrize("window", [4, 6])
def test_another_window_is_found(window: int, compiled_anew: None) -> None:
    module, made = written("windowed")
    other = Windowed()
    other.load_state_dict(module.state_dict())
    other.window = window  # type: ignore[misc]
    assert made.proof is not None
    assert with_own_generation(made.proof, other.eval(), made).status is Status.DIFFER


def test_what_takes_something_else_is_refused() -> None:
    module = nn.Linear(3, 4)
    made = port.translate(module, (torch.ones(2, 3),), sizes_limit=0)
    assert made.proof is not None
    with pytest.raises(UsageError, match="Linear cannot be called with tokens alone"):
        with_own_generation(made.proof, module, made)
