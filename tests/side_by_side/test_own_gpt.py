"""A GPT of a user's own through both trainers: the Flax file that `port.translate` writes, and faults planted there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import port
from port.records import Status
from port.training import judge
from port.translation.folder import write_folder
from side_by_side.config import Config
from tests.side_by_side.conftest import run_module

# In the short run `test_own.py` has a smaller model and its fault.
pytestmark = pytest.mark.sweep

MODEL = '''
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, dropout):
        super().__init__()
        assert n_embd % n_head == 0
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.resid_dropout = nn.Dropout(dropout)
        self.n_head = n_head
        self.n_embd = n_embd

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, nh, T, hs)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, dropout)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(dropout)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class ImageGPT(nn.Module):
    """Reads an image as a text of grey levels, row by row; the word behind it is the digit that it shows."""

    def __init__(self, n_layer=2, n_head=2, n_embd=16, dropout=0.1, levels=17, digits=10, context=64):
        super().__init__()
        self.levels, self.digits = levels, digits
        self.wte = nn.Embedding(digits + levels, n_embd)
        self.wpe = nn.Embedding(context, n_embd)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList([Block(n_embd, n_head, dropout) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, digits + levels, bias=False)
        self.lm_head.weight = self.wte.weight  # weight tying
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, mean=0.0, std=0.1 / math.sqrt(2 * n_layer))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=0.1)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.1)

    def forward(self, images):
        # the vocabulary: digits first, then the grey levels
        idx = self.digits + (images.flatten(1) * (self.levels - 1)).round().long()
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x[:, -1])
        return self.lm_head(x)[:, : self.digits]
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model in torch, and what was written of it."""
    from side_by_side.own import found

    folder = tmp_path_factory.mktemp("gpt")
    (folder / "gpt_models.py").write_text(MODEL)
    cls = found(f"{folder / 'gpt_models.py'}:ImageGPT", "--torch-model")
    torch.manual_seed(1)
    done = port.translate(cls(), torch.rand(2, 1, 8, 8), name="image_gpt", check=False, construct=cls)
    assert not done.unwritten and not done.without_start
    write_folder(done, folder / "written", name="image_gpt")
    return folder


def config(project: Path, **options: Any) -> Config:
    return Config(
        torch_model=f"{project / 'gpt_models.py'}:ImageGPT",
        jax_model=f"{project / 'written' / 'image_gpt.py'}:ImageGPT",
        dataset="digits",
        batch_size=16,
        precision="float64",
        **options,
    )


def test_two_hundred_steps(project: Path, train_both: Callable[..., Any]) -> None:
    outcome = train_both(config(project, steps=200, optimizer="adam", lr=3e-3))
    assert outcome.verdict.status is Status.AGREE, str(outcome.verdict)
    losses = [(outcome.torch.steps[step].loss, outcome.jax.steps[step].loss) for step in range(200)]
    apart = max(abs(a - b) / abs(a) for a, b in losses)
    print(f"\nlosses {losses[0][0]:.2f} → {losses[-1][0]:.2f}: {apart:.1e}; weights: {outcome.weights}")
    assert apart <= 1e-9
    # The farthest are the keys' biases: no softmax sees them, so that Adam is given rounding alone for their gradients.
    assert outcome.weights is not None and outcome.weights.difference <= 1e-9
    # It learns: two sides that stand still would agree as well.
    assert sum(a for a, _ in losses[-20:]) < 0.8 * sum(a for a, _ in losses[:20])


def test_two_ranks_that_share_its_parameters_out(project: Path, tmp_path: Path) -> None:
    """Blocks in a list are gathered one at a time, the embedding that is the head too with the model as a whole."""
    import side_by_side.jax.train

    told = config(project, steps=10, optimizer="adam", lr=3e-3, devices=2, parallel="fsdp", accumulate=2, clip_norm=0.5)
    told = replace(told, out=tmp_path)
    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "side_by_side.pytorch.train")
    run_module(*torchrun, *told.flags())
    side_by_side.jax.train.train(told, "float64")
    records = [tmp_path / "float64" / f"{side}.jsonl" for side in ("torch", "jax")]
    outcome = judge("float64", *records, [], tuple(record.with_suffix(".safetensors") for record in records))
    assert outcome.verdict.status is Status.AGREE, outcome.verdict.sentence
    assert outcome.weights is not None and outcome.weights.difference <= 1e-9


@dataclass(frozen=True)
class Fault:
    """A change of the written file.

    Attributes:
        before: what stands there.
        after: what it becomes.
        times: how often it stands there.
        step: at which the losses part: where only gradients differ, at the next.
    """

    before: str
    after: str
    times: int = 1
    step: int = 0


FAULTS = {
    "it looks ahead": Fault(", is_causal=True)", ")"),
    "the other gelu": Fault("approximate=False", "approximate=True"),
    "another epsilon": Fault("epsilon=1e-05", "epsilon=1e-06", 3),
    "positions shifted by one": Fault("jnp.arange(idx.shape[1])", "jnp.arange(1, idx.shape[1] + 1) % idx.shape[1]"),
    "no gradient through the head": Fault(
        "self.wte.attend(x)", "x @ jax.lax.stop_gradient(self.wte.embedding[...]).T", step=1
    ),
    "queries and keys swapped": Fault("q, k, v = ", "k, q, v = "),
    "norm behind the block": Fault("x + self.mlp(self.ln_2(x))", "self.ln_2(x + self.mlp(x))"),
    "another rate": Fault("self.drop = nnx.Dropout(0.1", "self.drop = nnx.Dropout(0.125"),
    "no dropout in the blocks": Fault("return self.resid_dropout(self.c_proj(y))", "return self.c_proj(y)"),
}


@pytest.mark.daily(3)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, project: Path, train_both: Callable[..., Any]) -> None:
    fault, source = FAULTS[name], project / "written" / "image_gpt.py"
    text = source.read_text()
    assert text.count(fault.before) == fault.times, text
    try:
        outcome = train_both(
            config(project, steps=4), fault=lambda _: source.write_text(text.replace(fault.before, fault.after))
        )
    finally:
        source.write_text(text)
    print(f"\n{name}: {outcome.verdict.sentence}")
    assert outcome.verdict.status is Status.DIFFER
    assert outcome.verdict.findings[0].step == fault.step
