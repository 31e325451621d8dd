"""Fifty steps on every mesh of up to eight virtual devices: the losses of one device, and the collectives meant."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from .eight_devices import told_on_eight_devices

pytestmark = pytest.mark.sweep

LAYERS = 3
DEEP = ("--depth", str(LAYERS))
SCANNED = ("LLaMA", *DEEP, "--scan")
NETS = (("LLaMA", *DEEP), SCANNED, ("GPT", *DEEP))


@cache
def ran(*arguments: str) -> Any:
    return told_on_eight_devices("sharded_training.py", *arguments)


@pytest.mark.parametrize("net", NETS, ids=" ".join)
def test_losses_are_those_of_one_device(net: tuple[str, ...]) -> None:
    told = ran(*net)
    assert told["stacked"] == (["layers"] if net == SCANNED else [])
    one = np.asarray(told["one"]["losses"])
    assert one[-1] < one[0] / 2
    assert len(told["meshes"]) == 17
    for mesh, run in told["meshes"].items():
        assert np.abs(np.asarray(run["losses"]) - one).max() <= 1e-9, mesh
        assert run["stays"], mesh


@pytest.mark.parametrize("net", NETS, ids=" ".join)
def test_the_collectives_are_those_that_are_meant(net: tuple[str, ...]) -> None:
    meshes = ran(*net)["meshes"]
    for mesh, run in meshes.items():
        kind, count = mesh.split()
        assert run["unmeant"] == [], mesh
        kinds = {each.split()[0] for each in run["collectives"]}
        if count == "1":
            assert not kinds, mesh
        elif kind in ("data", "tensor") or mesh == "fsdp+tensor 2":  # of which one is fsdp's
            assert kinds == {"all-reduce"}, mesh
        else:
            # XLA's CPU makes one all-reduce and slices of a reduce-scatter.
            assert "all-gather" in kinds, mesh
            assert kinds <= {"all-gather", "all-reduce", "reduce-scatter"}, mesh
    # GPT's attention is whole; those in a scan's body stand there once.
    a_block = 1 if net[0] == "GPT" else 2
    for count in ("2", "4", "8"):
        assert meshes[f"tensor {count}"]["forward"] == a_block * (1 if net == SCANNED else LAYERS)


@pytest.mark.parametrize("net", NETS[:2], ids=" ".join)
def test_each_device_holds_its_part(net: tuple[str, ...]) -> None:
    meshes = ran(*net)["meshes"]
    (whole,) = meshes["data 8"]["bytes"]
    assert meshes["data 1"]["bytes"] == [whole]
    for count in (2, 4, 8):
        (part,) = meshes[f"fsdp {count}"]["bytes"]
        assert part == pytest.approx(whole / count, rel=0.01)
        (tensor,) = meshes[f"tensor {count}"]["bytes"]
        assert whole / count < tensor < 1.1 * whole / count  # the norms' scales are whole
        (both,) = meshes[f"fsdp+tensor {count}"]["bytes"]
        assert both == pytest.approx(whole / count, rel=0.02)


@pytest.mark.parametrize(
    ("net", "mesh"),
    [
        ("SharedKeys", {"fsdp": 2, "tensor": 4}),
        ("SharedKeys", {"fsdp": 8}),
        ("ResNet", {"data": 2, "fsdp": 4}),
        ("ResNet", {"fsdp": 8}),
    ],
)
def test_one_key_for_all_queries_and_convolutions_too(net: str, mesh: Any) -> None:
    told = ran(net, "--mesh", json.dumps(mesh))
    run = told["meshes"]["one"]
    assert np.abs(np.asarray(run["losses"]) - told["one"]["losses"]).max() <= 1e-9
    assert run["unmeant"] == []
    assert {each.split()[0] for each in run["collectives"]} == {"all-gather", "all-reduce"}


@pytest.mark.parametrize("mesh", [{"tensor": 4}, {"fsdp": 2, "tensor": 4}])
def test_heads_of_keys_that_the_devices_do_not_divide_stay_whole(mesh: Any) -> None:
    told = ran("FewKeys", "--mesh", json.dumps(mesh))
    run = told["meshes"]["one"]
    assert np.abs(np.asarray(run["losses"]) - told["one"]["losses"]).max() <= 1e-9
    # The gradients of keys and values are gathered: each device has those of its own heads of queries.
    assert len(run["unmeant"]) == 2 * 2
    assert all("all-gather along tensor" in each and "(jit(step)/transpose(" in each for each in run["unmeant"])
    (warning,) = run["warnings"]
    assert warning.startswith(
        "kv stays whole on every device (layers.0.attention.k.kernel and 3 more): 4 devices along"
    )
    asked = ran("FewKeys", "--mesh", json.dumps(mesh), "--rules", '{"kv": null}')["meshes"]["one"]
    assert (asked["warnings"], asked["bytes"]) == ([], run["bytes"])


@pytest.mark.parametrize(
    ("net", "mesh", "wrong", "said"),
    [
        # What goes on is divided, and gathered for each layer.
        ("LLaMA", {"tensor": 4}, ("--rules", '{"mlp": null, "embed": "tensor"}'), "not gathered"),
        # The parameters are divided, and the batch is not.
        ("LLaMA", {"fsdp": 4}, ("--rules", '{"batch": null}'), "activations"),
        # A projection that tensor parallelism leaves whole has parts computed all the same.
        ("GPT", {"fsdp": 2, "tensor": 4}, ("--loose",), "no intended collective moves shards"),
        # Each device has half of a head of keys.
        ("FewKeys", {"tensor": 4}, ("--within-heads",), "no intended collective moves shards"),
    ],
    ids=["embed along tensor", "no batch", "not gathered", "within heads"],
)
def test_what_is_wrong_is_found_by_the_collectives(net: str, mesh: Any, wrong: tuple[str, ...], said: str) -> None:
    told = ran(net, "--mesh", json.dumps(mesh), *wrong)
    (run,) = told["meshes"].values()
    assert any(said in each for each in run["unmeant"])
