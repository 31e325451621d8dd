"""Checkpoints of which each rank writes its part: gone on with bit for bit, and whole or not at all."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
import torch.distributed as dist
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import side_by_side.jax.sharded_checkpoint as jax_side
import side_by_side.pytorch.sharded_checkpoint as torch_side
from port.errors import BrokenWeights, UsageError, WeightsMismatch
from port.weights.dcp_files import open_dcp
from side_by_side.config import OPTIMIZERS, UNSHARDED, Config
from side_by_side.pytorch.optimizer import make_optimizer, make_schedule
from tests.side_by_side.conftest import run_module

STEPS, SAVED_AT = 6, 3
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}


@pytest.fixture(autouse=True)
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "checkpoint"


# %% PyTorch


class TorchRun:
    """A small net, sharded, with running statistics, a parameter of the whole's own, and one without a gradient."""

    def __init__(self, optimizer: str = "adam", schedule: str = "one-cycle", seed: int = 0, width: int = 7) -> None:
        torch.manual_seed(seed)
        layers = [nn.Linear(5, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, 3)]
        self.model = nn.Sequential(*layers).double()
        self.model.unused = nn.Parameter(torch.randn(4, dtype=torch.float64))
        mesh = init_device_mesh("cpu", (1,))
        for unit in (layers[0], layers[3], self.model):
            fully_shard(unit, mesh=mesh)
        config = Config(optimizer=optimizer, schedule=schedule, lr=0.1)
        self.parts: Any = [self.model, make_optimizer(config, self.model.parameters())]
        self.parts.append(make_schedule(config, self.parts[1], STEPS))

    def step(self, step: int) -> float:
        model, optimizer, schedule = self.parts
        optimizer.zero_grad()
        x = torch.tensor(np.random.default_rng(step).standard_normal((6, 5)))
        loss: Tensor = model(x).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.item()

    def state(self) -> dict[str, Any]:
        model, optimizer, schedule = self.parts
        found = {name: bits(tensor) for name, tensor in model.state_dict().items()}
        for index, values in optimizer.state_dict()["state"].items():
            found |= {f"{index}.{name}": bits(value) for name, value in values.items()}
        return {**found, "groups": optimizer.state_dict()["param_groups"], "schedule": schedule.state_dict()}


def bits(value: Any) -> tuple[str, bytes]:
    tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return str(tensor.dtype), tensor.detach().numpy().tobytes()


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name not in UNSHARDED])
def test_torch_goes_on_bit_for_bit(optimizer: str, path: Path) -> None:
    run = TorchRun(optimizer)
    for step in range(SAVED_AT):
        run.step(step)
    torch_side.save_checkpoint(path, SAVED_AT, *run.parts)
    losses = [run.step(step) for step in range(SAVED_AT, STEPS)]
    resumed = TorchRun(optimizer, seed=1)
    assert torch_side.restore_checkpoint(path, *resumed.parts) == SAVED_AT
    assert [resumed.step(step) for step in range(SAVED_AT, STEPS)] == losses
    assert resumed.state() == run.state()


def test_right_behind_an_evaluation_it_is_as_whole(path: Path) -> None:
    run, resumed = TorchRun(), TorchRun(seed=1)
    for step in range(SAVED_AT):
        run.step(step)
    run.model.eval()
    with torch.no_grad():
        run.model(torch.zeros(6, 5, dtype=torch.float64))
    run.model.train()
    torch_side.save_checkpoint(path, SAVED_AT, *run.parts)
    torch_side.restore_checkpoint(path, *resumed.parts)
    assert resumed.state() == run.state()
    assert [resumed.step(step) for step in range(SAVED_AT, STEPS)] == [run.step(s) for s in range(SAVED_AT, STEPS)]


@pytest.mark.parametrize("part", ["model", "optimizer", "schedule"])
def test_what_is_not_restored_is_seen(part: str, path: Path) -> None:
    """The planted fault: this part of it is as a new run has it."""
    run, resumed, new = TorchRun(), TorchRun(seed=1), TorchRun(seed=1)
    for step in range(SAVED_AT):
        run.step(step)
    torch_side.save_checkpoint(path, SAVED_AT, *run.parts)
    torch_side.restore_checkpoint(path, *resumed.parts)
    if part == "optimizer":
        resumed.parts[1].state.clear()
    else:
        place = ("model", "optimizer", "schedule").index(part)
        resumed.parts[place].load_state_dict(new.parts[place].state_dict())
    losses = [[each.step(step) for step in range(SAVED_AT, STEPS)] for each in (run, resumed)]
    assert losses[0] != losses[1]


def test_the_last_one_saved_is_the_only_one_and_port_reads_it(path: Path) -> None:
    run = TorchRun()
    assert torch_side.latest_step(path) is None
    with pytest.raises(UsageError, match="there is no checkpoint at"):
        torch_side.restore_checkpoint(path, *run.parts)
    for step in (3, 6, 10, 4, 4):  # also where an earlier run got further
        run.step(step)
        torch_side.save_checkpoint(path, step, *run.parts)
        assert torch_side.latest_step(path) == step
    assert [folder.name for folder in path.iterdir()] == ["4"]
    found, tops = open_dcp(path / "4")
    assert tops == ("model", "optimizer")
    assert found.tensors["model.0.weight"].shape == (7, 5)


def test_a_kill_while_it_saves_leaves_the_earlier_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = TorchRun()
    torch_side.save_checkpoint(path, 1, *run.parts)
    before = run.state()
    run.step(1)
    for place in ("write_file", "dcp", "os"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(torch_side, place, Killed())
            torch_side.save_checkpoint(path, 2, *run.parts)
        assert torch_side.latest_step(path) == 1
    resumed = TorchRun(seed=1)
    torch_side.restore_checkpoint(path, *resumed.parts)
    assert resumed.state() == before
    torch_side.save_checkpoint(path, 2, *run.parts)
    assert [folder.name for folder in path.iterdir()] == ["2"]


class Killed:
    """Is called, or has something that is: it comes no further."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return self


class Runs:
    """What a pickle could run."""

    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["PORT_TESTS_RAN"],)


def missing(file: Path) -> None:
    file.unlink()


def run_something(file: Path) -> None:
    file.write_bytes(pickle.dumps(Runs()))


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def changed_inside(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for place in range(0, len(content), 50):
        content[place] ^= 0x55
    file.write_bytes(content)


BROKEN: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a rank's file is missing": ("__0_0.distcp", missing, r"'__0_0.distcp' is not a file of the folder, but model\."),
    "a rank's file is cut short": ("__0_0.distcp", cut_short, "__0_0.distcp has .* it may have been cut short"),
    "a rank's file is another": ("__0_0.distcp", changed_inside, "cannot be read as a checkpoint"),
    "the list is missing": (".metadata", missing, r"\.metadata cannot be read: No such file"),
    "the list is cut short": (".metadata", cut_short, r"\.metadata cannot be read as the metadata of"),
    "the list runs something": (".metadata", run_something, "cannot be read as the"),
    "the rest is missing": ("rest.pt", missing, r"rest\.pt cannot be read as a checkpoint"),
    "the rest is cut short": ("rest.pt", cut_short, r"rest\.pt cannot be read as a checkpoint"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_one_is_refused(what: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, breaks, says = BROKEN[what]
    monkeypatch.setenv("PORT_TESTS_RAN", str(tmp_path / "ran"))
    run = TorchRun()
    run.step(0)
    torch_side.save_checkpoint(path, 1, *run.parts)
    breaks(path / "1" / name)
    with pytest.raises(BrokenWeights, match=says):
        torch_side.restore_checkpoint(path, *TorchRun(seed=1).parts)
    assert not (tmp_path / "ran").exists()


def test_torchs_own_reader_would_run_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the list is read by a reader of our own, which is asked here without what comes before it."""
    monkeypatch.setenv("PORT_TESTS_RAN", str(tmp_path / "ran"))
    path.mkdir(parents=True)
    (path / ".metadata").write_bytes(pickle.dumps(Runs()))
    with pytest.raises(pickle.UnpicklingError, match="mkdir, which is nothing of a checkpoint's"):
        torch_side._Reader(path).read_metadata()
    assert not (tmp_path / "ran").exists()
    with pytest.raises(AttributeError):
        torch_side.dcp.FileSystemReader(path).read_metadata()
    assert (tmp_path / "ran").exists()


def test_another_runs_is_refused(path: Path) -> None:
    torch_side.save_checkpoint(path, 1, *TorchRun().parts)
    for other, says in (
        (TorchRun(width=8), r"model.0.bias is float64 \(7,\), here float64 \(8,\)"),
        (TorchRun("adamw"), "optimizer is Adam, here AdamW"),
        (TorchRun(schedule="step"), "schedule is OneCycleLR, here StepLR"),
    ):
        with pytest.raises(WeightsMismatch, match=says):
            torch_side.restore_checkpoint(path, *other.parts)


RANKS = """
import os, sys
from pathlib import Path
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from side_by_side.pytorch.sharded_checkpoint import save_checkpoint

dist.init_process_group("gloo")
model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4)).double()
fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
for buffer in model.buffers():
    buffer += dist.get_rank()  # after a training step, each rank has statistics of its own
optimizer = torch.optim.SGD(model.parameters())
dcp.save({"model": model.state_dict()}, checkpoint_id=Path(sys.argv[1]) / "torch's own")
save_checkpoint(Path(sys.argv[1]) / "ours", 3, model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer))
dist.destroy_process_group()
os._exit(0)
"""


@pytest.mark.sweep
def test_of_buffers_that_differ_rank_0s_are_saved_and_by_torch_itself_anybodys(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    run_module("torch.distributed.run", "--standalone", "--nproc-per-node", "2", f"{tmp_path}/ranks.py", f"{tmp_path}")
    ranks: dict[str, set[float]] = {}
    for folder in ("torch's own", "ours/3"):
        found, _ = open_dcp(tmp_path / folder)
        begins = {"running_mean": 0.0, "running_var": 1.0}
        kinds = {name: name.rpartition(".")[2] for name in found.tensors}
        statistics = [name for name, kind in kinds.items() if kind in begins]
        assert len(statistics) == 4
        ranks[folder] = {float(found.read(name)[0]) - begins[kinds[name]] for name in statistics}
    assert ranks["ours/3"] == {0.0}
    assert 1.0 in ranks["torch's own"]
    assert sorted(file.name for file in (tmp_path / "ours" / "3").iterdir()) == [
        ".metadata",
        "__0_0.distcp",
        "__1_0.distcp",
        "rest.pt",
    ]


# %% JAX


def on(devices: int, tree: Any) -> Any:
    """On so many devices, each with its part of every last axis that they divide."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("fsdp",))

    def placed(x: Any) -> jax.Array:
        cut = x.ndim and x.shape[-1] % devices == 0
        return jax.device_put(x, NamedSharding(mesh, P(*[None] * (x.ndim - 1), "fsdp") if cut else P()))

    return jax.tree.map(placed, tree)


def jax_state(seed: int) -> Any:
    draw = np.random.default_rng(seed).standard_normal
    params = {"kernel": jnp.asarray(draw((3, 8))), "bias": jnp.asarray(draw(6)), "head": jnp.asarray(draw((5, 4)))}
    return params, optax.adam(0.1).init(jax.tree.map(jnp.cos, params)), jnp.asarray(seed)


@pytest.mark.parametrize(("saved_by", "read_by"), [(4, 4), (4, 2), (1, 4), (2, 3)])
def test_jax_reads_its_part_of_what_any_number_of_devices_has_written(saved_by: int, read_by: int, path: Path) -> None:
    state, like = on(saved_by, jax_state(3)), on(read_by, jax_state(4))
    jax_side.save_checkpoint(path, 3, state)
    step, restored = jax_side.restore_checkpoint(path, like)
    assert step == jax_side.latest_step(path) == 3
    assert str(jax.tree.structure(restored)) == str(jax.tree.structure(state))
    for got, one, expected in zip(*map(jax.tree.leaves, (restored, like, state)), strict=True):
        assert got.sharding == one.sharding
        assert got.dtype == expected.dtype
        assert np.asarray(got).tobytes() == np.asarray(expected).tobytes()


def test_jax_keeps_one_and_refuses_a_broken_one_and_another_runs(path: Path) -> None:
    assert jax_side.latest_step(path) is None
    with pytest.raises(UsageError, match="there is no checkpoint at"):
        jax_side.restore_checkpoint(path, on(4, jax_state(0)))
    for step in (3, 6, 6):
        jax_side.save_checkpoint(path, step, on(4, jax_state(step)))
    assert [folder.name for folder in path.iterdir()] == ["6"]
    params, moments, count = on(4, jax_state(0))
    with pytest.raises(WeightsMismatch, match=r"0.bias is float64 \(6,\), here missing"):
        jax_side.restore_checkpoint(path, ({**params, "bias": None}, moments, count))
    data = [file for file in path.rglob("*") if file.parent.name == "d"]
    assert data
    for file in data:
        file.unlink()
    with pytest.raises(BrokenWeights, match="cannot be read as a checkpoint"):
        jax_side.restore_checkpoint(path, on(4, jax_state(0)))


# %% What both sides print


@pytest.mark.sweep
def test_two_go_on_bit_for_bit_and_one_goes_on_with_what_two_have_written() -> None:
    printed = []
    for side in ("pytorch", "jax"):
        command = (sys.executable, "-P", "-W", "ignore", "-m", f"side_by_side.{side}.sharded_checkpoint")
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    same, by_two, by_one = printed[0].splitlines()
    assert same == "the same bits: True"
    assert by_two.partition(": ")[2] == by_one.partition(": ")[2]
    numbers = [float(number) for number in by_two.partition(": ")[2].split()]
    assert len({round(number, 3) for number in numbers}) == 6
