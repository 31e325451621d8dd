"""What translating costs, beside the two exports that it stands on, and beside holding the model.

Run with ``pytest -m benchmark -s -n 0``; prints both and the ratio. Time is that of one process, on one thread; what is
loaded once, and torch's own caches, are there before. The aims: at most 3 times the CPU time of ``torch.export.export``
in evaluation and in training, and at most 1.3 times the memory. A LLaMA of seven billion parameters on the meta device,
as `transformers` (where it is installed) builds it, takes at most 4 GB and 3 minutes, and its source does not grow with
its depth.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torchvision
from torch import Tensor, nn

import port

pytestmark = [pytest.mark.benchmark, pytest.mark.filterwarnings("ignore")]
ROUNDS = 3


class Attention(nn.Module):
    """Multi-head self-attention, as BERT's code writes it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            layer(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + mask
        mixed = self.dropout(scores.softmax(-1)) @ value
        given: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return given


class Layer(nn.Module):
    """One layer of BERT: normalised behind each half."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.attention_norm = Attention(width, heads), nn.LayerNorm(width, eps=1e-12)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
        given: Tensor = self.norm(x + self.dropout(self.down(nn.functional.gelu(self.up(x)))))
        return given


class Bert(nn.Module):
    """BERT base: 12 layers, 110 million parameters; its hidden states and what it pools of them."""

    def __init__(self, width: int = 768, heads: int = 12, layers: int = 12, words: int = 30522) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(words, width, padding_idx=0), nn.Embedding(2, width)
        self.positions = nn.Embedding(512, width)
        self.norm, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(0.1)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.words(ids) + self.positions(positions) + self.kinds(torch.zeros_like(ids))
        x = self.dropout(self.norm(x))
        added = (1.0 - mask[:, None, None].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, added)
        return x, self.pooler(x[:, 0]).tanh()


def images() -> tuple[Tensor, ...]:
    return (torch.randn(2, 3, 224, 224),)


def words() -> tuple[Tensor, ...]:
    return torch.randint(1, 30522, (2, 128)), torch.ones(2, 128, dtype=torch.long)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, ...]]]] = {
    "resnet50": (torchvision.models.resnet50, images),
    "vit_b_16": (torchvision.models.vit_b_16, images),
    "bert": (Bert, words),
}


def seconds(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def exports(module: nn.Module, args: tuple[Tensor, ...]) -> float:
    """CPU seconds of exporting in evaluation and in training; making the copies is not counted."""
    copies = [copy.deepcopy(module).train(training) for training in (False, True)]
    return sum(seconds(lambda one=one: torch.export.export(one, args)) for one in copies)  # type: ignore[misc]


def costs(name: str) -> list[tuple[float, float]]:
    """CPU seconds of both exports and of the translation, several times, taking turns."""
    build, draw = MODELS[name]
    module, args = build(), draw()
    torch.set_num_threads(1)
    translate = partial(port.translate, module, args, check=False)
    exports(module, args)
    translate()
    return [(exports(module, args), seconds(translate)) for _ in range(ROUNDS)]


@pytest.mark.parametrize("name", MODELS)
def test_translating_costs_little_more_than_exporting(name: str) -> None:
    # In a process of its own, as its user has it: under pytest the same takes longer.
    program = f"import runpy; print(runpy.run_path({__file__!r})['costs']({name!r}))"
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    exported, translated = (min(several) for several in zip(*ast.literal_eval(said), strict=True))
    print(f"\n{name}: translated in {translated:.2f} s of CPU time, exported twice in {exported:.2f} s; ", end="")
    print(f"ratio of the least {translated / exported:.2f}")


LOADED = """
import sys, torch, torchvision, port
port.translate(torch.nn.Linear(2, 3), torch.randn(4, 2), check=False)
"""
"""What torch.export loads when it is first used is there before; in a fresh process that is some 50 MiB more."""
HELD = f"{LOADED}torchvision.models.resnet152()"
TRANSLATED = f"{LOADED}port.translate(torchvision.models.resnet152(), torch.randn(2, 3, 224, 224), check=False)"


def run_measured(program: str, *args: str) -> str:
    """What a program prints, and last the KiB that its process held at most."""
    # Not getrusage's: that begins with what the process held that started this one.
    measured = f"{program}\nprint(*[line.split()[1] for line in open('/proc/self/status') if line[:5] == 'VmHWM'])"
    return subprocess.run([sys.executable, "-c", measured, *args], check=True, capture_output=True, text=True).stdout


def peak(program: str) -> float:
    """MiB of a process that runs a program."""
    return int(run_measured(program).split()[-1]) / 1024


def test_translating_takes_little_more_memory_than_holding() -> None:
    held, translated = peak(HELD), peak(TRANSLATED)
    print(f"\nresnet152: {translated:.0f} MiB at most to translate, {held:.0f} MiB to hold; ", end="")
    print(f"ratio {translated / held:.2f}")


LLAMA = """
import sys, time, torch, port
from transformers import LlamaConfig, LlamaForCausalLM
sizes = dict(hidden_size=4096, num_attention_heads=32, intermediate_size=11008, vocab_size=32000, use_cache=False)
config = LlamaConfig(num_hidden_layers=int(sys.argv[1]), **sizes)
with torch.device("meta"):
    module = LlamaForCausalLM(config)
began, clock = time.process_time(), time.perf_counter()
inputs = {"input_ids": torch.randint(config.vocab_size, (1, 128))}
made = port.translate(module, (), inputs, construct=lambda: LlamaForCausalLM(config))
print(len(made.source.splitlines()), sum(parameter.numel() for parameter in module.parameters()))
print(time.process_time() - began, time.perf_counter() - clock)
"""


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")
def test_a_large_language_model_on_the_meta_device() -> None:
    lines = {}
    for layers in (2, 32):
        said = run_measured(LLAMA, str(layers)).split()
        lines[layers], parameters, (cpu, wall) = int(said[0]), int(said[1]), map(float, said[2:4])
        print(f"\nLLaMA, {layers} layers, {parameters / 1e9:.2f} billion parameters: {cpu:.0f} s of CPU time, ", end="")
        print(f"{wall:.0f} s, {int(said[4]) / 1024:.0f} MiB at most, {lines[layers]} lines", end="")
        assert wall < 180 and int(said[4]) < 4 << 20
    assert lines[2] == lines[32]
