"""The lesson on sharded state: both sides print the same numbers, those of one device; what it says of bytes holds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
import torch.distributed as dist
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore

import side_by_side.pytorch.fsdp as lesson
from side_by_side.pytorch.parallel import draw, loss_fn, make_mesh
from tests.side_by_side.lesson_output import Printed, differences, output

ROOT = Path(lesson.__file__).parents[1]
REPLICAS = 2
LIMIT = 1e-12


def start(*command: str | Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    command = (sys.executable, "-P", "-W", "ignore", *command)
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, encoding="utf-8", env=environment)


def printed(process: subprocess.Popen[str]) -> Printed:
    """title → name → numbers."""
    out = output(process)
    found: Printed = {}
    for line in out.splitlines():
        if line.startswith("# "):
            results = found.setdefault(line[2:], {})
        else:
            name, numbers = line.split(": ")
            results[name] = np.array(numbers.split(), dtype=float)
    return found


@pytest.fixture(scope="module")
def in_jax() -> Printed:
    return printed(start("-m", "side_by_side.jax.fsdp", "--replicas", str(REPLICAS)))


@pytest.fixture(scope="module")
def in_torch() -> Printed:
    return printed(start("-m", "side_by_side.pytorch.fsdp", "--replicas", str(REPLICAS)))


@contextmanager
def rank_of(ranks: int, rank: int = 0) -> Iterator[None]:
    """This process as one rank of several, none of which is there: nothing is sent, shapes are as with them."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


# %% What is printed


def on_one_device(clip: float) -> dict[str, np.ndarray]:
    """The same updates by plain torch: no replica, no part."""
    model = lesson.Net()
    optimizer = torch.optim.Adam(model.parameters(), lesson.LR)
    x = draw(REPLICAS * lesson.SAMPLES, lesson.FEATURES, seed=8)
    y = draw(REPLICAS * lesson.SAMPLES, 1, seed=9)
    losses, norms = [], []
    for _ in range(lesson.UPDATES):
        loss = loss_fn(model, x, y)
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip).item())
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    parameters = {name: parameter.detach().numpy().ravel() for name, parameter in model.named_parameters()}
    return {"losses": np.array(losses), "norms": np.array(norms), **parameters}


def check_updates(found: Printed) -> None:
    free, clipped = on_one_device(float("inf")), on_one_device(lesson.CLIP)
    assert min(clipped["norms"]) > lesson.CLIP, "every update is clipped"
    for title, expected in (
        ("A train step", free),
        ("A train step, clipped", clipped),
        ("A train step, in microbatches", clipped),
    ):
        assert list(found[title]) == list(expected)
        for name, numbers in expected.items():
            np.testing.assert_allclose(found[title][name], numbers, rtol=0, atol=LIMIT)


def check_traps(found: Printed) -> None:
    """D25: by its own norm, each part is scaled by a factor of its own."""
    norms = found["What goes wrong: norm"]
    own = [norms[f"own, replica {replica}"][0] for replica in range(REPLICAS)]
    total = norms["all, replica 0"][0]
    assert abs(np.square(own).sum() - total**2) < LIMIT
    for replica in range(REPLICAS):
        for name in ("first.w", "last.w"):
            right, wrong = (
                found[f"What goes wrong: {how}"][f"{name}, replica {replica}"] for how in ("right", "by its own norm")
            )
            factor = (total + 1e-6) / (own[replica] + 1e-6)
            assert factor > 1.1
            np.testing.assert_allclose(wrong, right * factor, rtol=1e-10, atol=LIMIT)


def check_bytes(found: Printed) -> None:
    parameters = 8 * lesson.HIDDEN * (lesson.FEATURES + 1)
    for how, share in (("replicated", 1), ("sharded", REPLICAS)):
        held = {name: float(count[0]) for name, count in found[f"Bytes on a device, {how}"].items()}
        expected = {"parameters": parameters, "gradients": parameters, "moments": 2 * parameters}
        assert held == {name: count / share for name, count in expected.items()}


@pytest.mark.sweep
def test_jax_trains_as_one_device_does_and_holds_a_part(in_jax: Printed) -> None:
    check_updates(in_jax)
    check_traps(in_jax)
    check_bytes(in_jax)


@pytest.mark.sweep
def test_torch_prints_the_same_numbers(in_jax: Printed, in_torch: Printed) -> None:
    found = differences(in_jax, in_torch)
    assert len(found) == 9
    assert max(found.values()) <= LIMIT, found
    check_updates(in_torch)
    check_traps(in_torch)
    check_bytes(in_torch)


@pytest.mark.sweep
@pytest.mark.parametrize("replicas", ["3", "4"])
def test_by_torchs_launcher_and_with_other_numbers_of_replicas(replicas: str) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", replicas]
    torch_side = printed(start(*launcher, "-m", "side_by_side.pytorch.fsdp"))
    jax_side = printed(start("-m", "side_by_side.jax.fsdp", "--replicas", replicas))
    assert max(differences(jax_side, torch_side).values()) <= LIMIT


# The comparison can fail

FAULTS = {
    "jax": [
        ("in array.addressable_shards]", "in array.addressable_shards[::-1]]"),
        ("losses, norms = np.transpose(measured)", "norms, losses = np.transpose(measured)"),
        ("y, mesh, clip=CLIP))", "y, mesh, clip=3 * CLIP))"),
        ("a + b / len(x)", "a + b"),
        ("return {name: [part", "return {name: [2 * part"),
        ("for _ in range(2)]", "for _ in range(3)]"),
        ("addressable_shards[0].data.nbytes", "nbytes"),
        ("gradients), own[None]", "gradients), 2 * own[None]"),
    ],
    "pytorch": [
        ("tensor.to_local().detach()", "tensor.to_local().detach().flip(0)"),
        ("norms.append(norm.full_tensor())", "norms.append(norm.full_tensor() * 2)"),
        ("y, replicas, clip=CLIP))", "y, replicas, clip=3 * CLIP))"),
        ("loss_fn(model, x_part, y_part) / microbatches", "loss_fn(model, x_part, y_part)"),
        ('("exp_avg", "exp_avg_sq")', '("exp_avg",)'),
        ("each.to_local() if isinstance(each, DTensor) else each for", "each for"),
        ('"own": own}', '"own": own * 2}'),
    ],
}


@pytest.mark.sweep
@pytest.mark.parametrize("side", FAULTS)
def test_a_mistake_in_any_of_it_is_found(side: str, tmp_path: Path, in_jax: Printed) -> None:
    source = (ROOT / side / "fsdp.py").read_text("utf-8")
    for right, wrong in FAULTS[side]:
        assert source.count(right) == 1, right
        source = source.replace(right, wrong)
    (tmp_path / "wrong.py").write_text(source, "utf-8")
    found = differences(in_jax, printed(start(tmp_path / "wrong.py", "--replicas", str(REPLICAS))))
    assert len(found) == 9
    assert min(found.values()) > 1e-3, found


# %% What it says


# CommDebugMode has hooks of its own, whose outputs are views.
counted = pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")


@counted
def test_a_layer_is_gathered_when_it_computes_and_its_gradient_is_scattered() -> None:
    with rank_of(2):
        model = lesson.shard(lesson.Net(), 2)
        with CommDebugMode() as sent:
            loss_fn(model, draw(4, lesson.FEATURES, seed=0), draw(4, 1, seed=1)).backward()
        counts = {str(kind): count for kind, count in sent.get_comm_counts().items()}
        # The first layer's twice, forward and backward; the last one's, with which backward begins, once.
        assert counts == {"c10d._allgather_base_": 3, "c10d._reduce_scatter_base_": 2}
        with CommDebugMode() as sent:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert sum(sent.get_comm_counts().values()) == 1, "the squares of the norms are summed up over the ranks"


def test_D23_torch_cuts_rows_that_the_ranks_do_not_divide_and_jax_refuses() -> None:
    rows = []
    for rank in range(4):
        with rank_of(4, rank):
            layer = nn.Linear(3, 5)
            fully_shard(layer, mesh=make_mesh(4))
            rows.append(len(lesson.parts({"weight": layer.weight})["weight"]))
    assert rows == [2, 2, 1, 0]
    mesh = Mesh(np.array(jax.devices()[:4]), ("replica",))
    with pytest.raises(ValueError, match="dimension size is 5"):
        jax.device_put(np.zeros((5, 3)), NamedSharding(mesh, P("replica")))


@pytest.mark.parametrize("made", ["before", "after"])
def test_D24_an_optimizer_that_was_made_before_trains_nothing(made: str) -> None:
    with rank_of(2):
        model = lesson.Net()
        if made == "before":
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
        lesson.shard(model, 2)
        if made == "after":
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
        before = {name: part.clone() for name, part in lesson.parts(dict(model.named_parameters())).items()}
        loss_fn(model, draw(4, lesson.FEATURES, seed=0), draw(4, 1, seed=1)).backward()
        optimizer.step()
        same = [torch.equal(part, before[n]) for n, part in lesson.parts(dict(model.named_parameters())).items()]
        assert same == [made == "before"] * 2


@counted
def test_D27_gradients_that_are_not_scattered_are_held_whole() -> None:
    with rank_of(2):
        model = lesson.shard(lesson.Net(), 2)
        x, y = draw(4, lesson.FEATURES, seed=0), draw(4, 1, seed=1)
        model.set_requires_gradient_sync(False)  # type: ignore[operator]
        with CommDebugMode() as sent:
            loss_fn(model, x, y).backward()
        assert "c10d._reduce_scatter_base_" not in map(str, sent.get_comm_counts())
        assert all(parameter.grad is None for parameter in model.parameters())
        held: list[Any] = []
        for part in (model.first, model):
            held += part._get_fsdp_state()._fsdp_param_group.fsdp_params  # type: ignore[operator]
        shapes = [param.unsharded_param.grad.shape for param in held]
        assert shapes == [(lesson.FEATURES, lesson.HIDDEN), (lesson.HIDDEN, 1)]
        model.set_requires_gradient_sync(True)  # type: ignore[operator]
        loss_fn(model, x, y).backward()
        local = [part.shape for part in lesson.parts({n: p.grad for n, p in model.named_parameters()}).values()]
        assert local == [(lesson.FEATURES // 2, lesson.HIDDEN), (lesson.HIDDEN // 2, 1)]


def test_D30_behind_an_evaluation_the_models_own_parameters_are_gathered_still() -> None:
    with rank_of(2):
        model = lesson.shard(lesson.Net(), 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with torch.no_grad():
            model(draw(4, lesson.FEATURES, seed=0))
        assert [isinstance(parameter, DTensor) for parameter in model.parameters()] == [True, False]
        assert model.last.w is not optimizer.param_groups[0]["params"][1]
        model.reshard()  # type: ignore[operator]
        assert model.last.w is optimizer.param_groups[0]["params"][1]


DIVIDED = """
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from side_by_side.pytorch.parallel import leave, make_mesh

dist.init_process_group("gloo")
for sums in (False, True):
    layer = nn.Linear(3, 2)
    fully_shard(layer, mesh=make_mesh(2))
    layer.set_gradient_divide_factor(4.0)
    layer.set_force_sum_reduction_for_comms(sums)
    try:
        layer(torch.ones(1, 3)).sum().backward()
        said = layer.bias.grad.full_tensor().tolist()
    except RuntimeError as error:
        said = str(error)
    if dist.get_rank() == 0:
        print(said)
leave()
"""


@pytest.mark.sweep
def test_D29_what_gloo_lacks_is_asked_for_by_a_divisor_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "divided.py").write_text(DIVIDED)
    process = start("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", tmp_path / "divided.py")
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert out.splitlines() == ["Cannot use ReduceOp.PREMUL_SUM with Gloo", "[0.5, 0.5]"]
