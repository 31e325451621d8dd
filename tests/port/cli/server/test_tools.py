"""The server, driven by a client of the official SDK: a small project is moved with its tools alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

from port.report.results import schema

pytest.importorskip("mcp", reason="the extra mcp is not installed")

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.hidden = nn.Linear(3, width)
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))
"""
BY_HAND = """
from flax import nnx
import jax.numpy as jnp


class Net(nnx.Module):
    def __init__(self, width: int = 5, *, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(3, width, rngs=rngs)
        self.out = nnx.Linear(width, 2, rngs=rngs)

    def __call__(self, x):
        return self.out(jnp.{function}(self.hidden(x)))
"""
TRAIN = """
import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

from model import Net

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 3), torch.randint(0, 2, (48,)))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(args.epochs):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
"""
Drive = Callable[[Any], Awaitable[None]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(NET)
    (tmp_path / "by_hand.py").write_text(BY_HAND.format(function="tanh"))
    (tmp_path / "wrong.py").write_text(BY_HAND.format(function="sin"))
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def driven(drive: Drive) -> None:
    """Start `port mcp` as an assistant does, and drive it."""
    from mcp import Client, StdioServerParameters

    async def run() -> None:
        line = StdioServerParameters(command=sys.executable, args=["-m", "port", "mcp"], env=dict(os.environ))
        async with Client(line, read_timeout_seconds=280) as client:
            await drive(client)

    anyio.run(run)


async def result(client: Any, tool: str, **options: Any) -> dict[str, Any]:
    """A tool's result, which has to be of the schema."""
    found = await client.call_tool(tool, options)
    assert not found.is_error, found.content
    jsonschema.validate(found.structured_content, schema())
    assert json.loads(found.content[0].text) == found.structured_content
    told: dict[str, Any] = found.structured_content
    return told


@pytest.mark.sweep
def test_the_tools_and_what_is_wrong(project: Path) -> None:
    async def drive(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"translate", "convert", "check", "match", "script", "compare"} <= set(tools)
        assert "Port a PyTorch project" in (client.instructions or "")
        for tool in tools.values():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            assert tool.description and tool.output_schema == schema()
        for options, said in (
            ({"torch": "model:Gone", "flax": "by_hand:Net", "input": ["2,3"]}, "Gone"),
            ({"torch": "model:Net", "flax": "by_hand:Net", "inptu": ["2,3"]}, "inptu"),
            ({"folder": "/nowhere"}, "/nowhere is no folder"),
        ):
            found = await client.call_tool("check", {"folder": str(project), **options})
            assert found.is_error and said in found.content[0].text
            assert "Traceback" not in found.content[0].text

    driven(drive)


@pytest.mark.sweep
def test_a_project_is_moved_with_the_tools_alone(project: Path) -> None:
    async def drive(client: Any) -> None:
        at: dict[str, Any] = {"folder": str(project)}
        found = await result(client, "translate", **at, target="model:Net", input=["4,3"], dry_run=True)
        assert found["exit_code"] == 0 and "have pairs" in found["sentence"]
        found = await result(client, "translate", **at, target="model:Net", input=["4,3"], out="ported")
        assert found["status"] == "agree" and (project / "ported" / "net.py").is_file()
        found = await result(client, "convert", **at, source="ported/net.safetensors", reverse=True, out="net.pth")
        assert found["files"] == ["net.pth"] and (project / "net.pth").is_file()
        found = await result(
            client, "match", **at, torch="model:Net", flax="by_hand:Net", input=["4,3"], out="map.toml"
        )
        assert found["status"] == "agree" and (project / "map.toml").is_file()
        found = await result(client, "check", **at, torch="model:Net", flax="by_hand:Net", input=["4,3"])
        assert found["status"] == "agree"
        wrong = await result(client, "check", **at, torch="model:Net", flax="wrong:Net", input=["4,3"])
        assert wrong["status"] == "differ" and wrong["exit_code"] == 1 and wrong["first_divergence"]
        found = await result(client, "script", **at, script="train.py", script_arguments=["--epochs", "2"])
        assert found["status"] == "agree" and str(Path("train_jax", "train_step.py")) in found["files"]
        scripts = {"torch_script": "train.py", "jax_script": "train_jax/train.py"}
        found = await result(client, "train", **at, **scripts, steps=6, precision="float64", out="run")
        assert found["status"] == "agree"
        records = {Path(name).name: name for name in found["files"] if name.startswith("run/float64/")}
        found = await result(client, "compare", **at, a=records["torch.jsonl"], b=records["jax.jsonl"])
        assert found["status"] == "agree"

    driven(drive)
