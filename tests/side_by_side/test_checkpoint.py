"""A run that is resumed at a checkpoint goes on bit for bit; and there always is a whole checkpoint."""

from __future__ import annotations

import gc
import os
import random
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import side_by_side.jax.checkpoint as jax_checkpoint
import side_by_side.jax.train as jax_train
import side_by_side.pytorch.checkpoint as torch_checkpoint
import side_by_side.pytorch.train as torch_train
from port.errors import BrokenWeights, UsageError, WeightsMismatch
from port.random import dropout_key
from side_by_side.config import OPTIMIZERS, SCHEDULES, Config

ROOT = Path(__file__).parents[2]
STEPS, SAVED_AT = 6, 3
IMAGES = np.random.default_rng(0).integers(0, 256, (STEPS, 5, 8, 8, 1), np.uint8)
LABELS = np.random.default_rng(1).integers(0, 10, (STEPS, 5))

Bits = dict[str, tuple[str, bytes]]
"""By name: the dtype and the bytes of an array, or the class and the text of anything else."""


def bits(value: Any) -> tuple[str, bytes]:
    if isinstance(value, torch.Tensor | jax.Array | np.ndarray):
        array = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        return f"{array.dtype} {array.shape}", array.tobytes()
    return type(value).__name__, repr(value).encode()


def flat(tree: Any, name: str = "") -> Bits:
    if isinstance(tree, dict):
        return {key: value for part in tree for key, value in flat(tree[part], f"{name}.{part}").items()}
    if isinstance(tree, list):
        return flat(dict(enumerate(tree)), name)
    return {name: bits(tree)}


class TorchRun:
    """A run of the PyTorch trainer, without its files."""

    def __init__(self, config: Config) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.model = torch_train.build(config).double().train()
        self.optimizer = torch_train.make_optimizer(config, self.model.parameters())
        self.schedule = torch_train.make_schedule(config, self.optimizer, STEPS)

    def step(self, step: int) -> Bits:
        images = torch.from_numpy(IMAGES[step]).permute(0, 3, 1, 2)
        key, labels = dropout_key(0, step, x64=True), torch.from_numpy(LABELS[step])
        batch, sizes = torch_train.Batch(images, labels, None), torch_train.Sizes(len(labels), len(labels))
        replicas = torch_train.Replicas(self.config)
        measured = torch_train.train_step(self.model, self.optimizer, self.schedule, 1.0, [batch], key, sizes, replicas)
        return flat(measured, str(step))

    def save(self, path: Path, step: int, leave_out: str | None = None) -> None:
        parts = {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}
        if leave_out is not None:
            parts[leave_out] = getattr(TorchRun(self.config), leave_out)
        torch_checkpoint.save_checkpoint(path, step, **parts)

    def restore(self, path: Path) -> int:
        return torch_checkpoint.restore_checkpoint(path, self.model, self.optimizer, self.schedule)

    def state(self) -> Bits:
        states = [part.state_dict() for part in (self.model, self.optimizer, self.schedule)]
        return flat(dict(zip(("model", "optimizer", "schedule"), states, strict=True)))


@cache
def functions(config: Config) -> tuple[Any, Any]:
    """The optimizer and the update: pure functions of the config, compiled once."""
    model = jax_train.build(config, jnp.dtype("float64"))
    model.train()
    schedule, replicas = jax_train.make_schedule(config, STEPS), jax_train.Replicas(config)
    optimizer = jax_train.make_optimizer(config, schedule, model)
    static = {"optimizer": optimizer, "schedule": schedule, "clip_norm": 1.0, "graphdef": nnx.graphdef(model)}
    return optimizer, replicas.compile(partial(jax_train.train_step, **static, replicas=replicas), None)


class JaxRun:
    """A run of the JAX trainer, without its files."""

    def __init__(self, config: Config) -> None:
        self.config = config
        model = jax_train.build(config, jnp.dtype("float64"))
        model.train()
        _, params, stats = nnx.split(model, nnx.Param, ...)
        optimizer, self.update = functions(replace(config, seed=0))
        self.state_ = jax_train.TrainState(params, stats, optimizer.init(params), jnp.zeros((), jnp.int32))

    def step(self, step: int) -> Bits:
        batch = jax_train.Batch(IMAGES[step][None], LABELS[step][None], None, None)
        sizes = jax_train.Sizes(len(LABELS[step]), len(LABELS[step]))
        self.state_, measured = self.update(self.state_, batch, jax.random.key(0), sizes)
        return flat(measured, str(step))

    def save(self, path: Path, step: int, leave_out: str | None = None) -> None:
        state = self.state_
        if leave_out is not None:
            state = state._replace(**{leave_out: getattr(JaxRun(self.config).state_, leave_out)})
        jax_checkpoint.save_checkpoint(path, step, state)

    def restore(self, path: Path) -> int:
        step, state = jax_checkpoint.restore_checkpoint(path, self.state_)
        assert jax.tree.structure(state) == jax.tree.structure(self.state_)
        assert jax.tree.map(jnp.shape, state) == jax.tree.map(jnp.shape, self.state_)
        self.state_ = state
        return step

    def state(self) -> Bits:
        return {
            jax.tree_util.keystr(path): bits(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(self.state_)
        }


RUNS: dict[str, Any] = {"torch": TorchRun, "jax": JaxRun}
MODULES: dict[str, Any] = {"torch": torch_checkpoint, "jax": jax_checkpoint}
both_sides = pytest.mark.parametrize("side", RUNS)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "checkpoint"


def differing(side: str, config: Config, path: Path, *, leave_out: str | None = None) -> list[str]:
    """What differs between a run and one that was resumed in another process's model: names of the first, sorted."""
    run = RUNS[side](config)
    expected: Bits = {}
    for step in range(STEPS):
        if step == SAVED_AT:
            run.save(path, step, leave_out)
        measured = run.step(step)
        expected |= measured if step >= SAVED_AT else {}
    resumed = RUNS[side](replace(config, seed=config.seed + 1))  # with other weights: they are to come from the file
    got: Bits = {}
    for step in range(resumed.restore(path), STEPS):
        got |= resumed.step(step)
    expected, got = expected | run.state(), got | resumed.state()
    assert len(expected) > 3 * (STEPS - SAVED_AT)
    return [name for name in sorted(expected.keys() | got.keys()) if expected.get(name) != got.get(name)]


CASES = {("torch", optimizer, "one-cycle") for optimizer in OPTIMIZERS}
CASES |= {("torch", "nadam", schedule) for schedule in SCHEDULES}
CASES |= {("jax", "adam", "cosine")}


PARTS = {"torch": ("model", "optimizer", "schedule"), "jax": ("params", "opt_state", "step")}


class TestResume:
    @pytest.mark.parametrize(("side", "optimizer", "schedule"), sorted(CASES))
    @pytest.mark.sweep
    def test_bit_for_bit(self, side: str, optimizer: str, schedule: str, path: Path) -> None:
        config = Config(model="mlp", optimizer=optimizer, schedule=schedule, steps=STEPS, dropout=0.3)
        assert differing(side, config, path) == []

    @pytest.mark.parametrize(
        ("side", "model"),
        [("torch", "mlp-by-hand"), ("torch", "convnet"), pytest.param("jax", "mlp-by-hand", marks=pytest.mark.sweep)],
    )
    def test_other_models(self, side: str, model: str, path: Path) -> None:
        assert differing(side, Config(model=model, optimizer="adam", steps=STEPS, schedule="step"), path) == []

    @pytest.mark.daily(3)
    @pytest.mark.sweep
    @pytest.mark.parametrize(
        ("side", "optimizer", "schedule"),
        [
            *(("torch", optimizer, schedule) for optimizer in OPTIMIZERS for schedule in SCHEDULES),
            *(("jax", optimizer, "one-cycle") for optimizer in OPTIMIZERS),
            *(("jax", "adam", schedule) for schedule in SCHEDULES),  # a function of the step: no state of its own
        ],
    )
    def test_everything(self, side: str, optimizer: str, schedule: str, path: Path) -> None:
        # XLA takes long over the convnet: once with every optimizer.
        model = "convnet" if side == "torch" or schedule == "one-cycle" else "mlp"
        assert differing(side, Config(model=model, optimizer=optimizer, schedule=schedule, steps=STEPS), path) == []

    @pytest.mark.parametrize(
        ("side", "part"),
        [(side, part) for side, parts in PARTS.items() for part in parts],
    )
    def test_what_a_checkpoint_leaves_out_is_seen(self, side: str, part: str, path: Path) -> None:
        """The planted fault: this part of it is as a new run has it."""
        config = Config(model="mlp", optimizer="adam", schedule="cosine", steps=STEPS, dropout=0.3)
        names = differing(side, config, path, leave_out=part)
        assert any(name.startswith(f".{part}") for name in names)
        assert f"{STEPS - 1}.lr" in names or part not in ("schedule", "step")
        assert f"{STEPS - 1}.loss" in names

    @pytest.mark.parametrize(("optimizer", "name"), [("nadam", "mu_product"), ("asgd", "eta")])
    def test_torchs_own_load_changes_dtypes(self, optimizer: str, name: str, path: Path) -> None:
        """Why the state's dtypes are put back."""
        config = Config(model="mlp", optimizer=optimizer)
        run, resumed = TorchRun(config), TorchRun(config)
        run.step(0)
        run.save(path, 1)
        resumed.optimizer.load_state_dict(torch.load(path)["optimizer"])
        assert flat(resumed.optimizer.state_dict())[f".state.0.{name}"][0] == "float64 ()"
        resumed.restore(path)
        assert flat(resumed.optimizer.state_dict())[f".state.0.{name}"][0] == "float32 ()"


class TestOneCheckpoint:
    @both_sides
    def test_none(self, side: str, path: Path) -> None:
        assert MODULES[side].latest_step(path) is None
        with pytest.raises(UsageError, match="there is no checkpoint at"):
            RUNS[side](Config(model="mlp")).restore(path)
        assert not path.parent.exists()

    @both_sides
    def test_the_last_one_saved_is_the_only_one(self, side: str, path: Path) -> None:
        run = RUNS[side](Config(model="mlp"))
        for step in (3, 6, 10, 4, 4):  # also where an earlier run got further
            run.save(path, step)
            assert MODULES[side].latest_step(path) == step
            assert run.restore(path) == step
        assert [file.name for file in path.parent.iterdir()] == ["checkpoint"]
        assert path.is_file() or [file.name for file in path.iterdir()] == ["4"]

    def test_an_empty_folder_holds_none(self, path: Path) -> None:
        path.mkdir(parents=True)
        assert jax_checkpoint.latest_step(path) is None

    def test_numpy_arrays_come_back_as_such(self, path: Path) -> None:
        state = {"a": np.arange(6.0).reshape(2, 3), "b": (np.array(1, np.int32), [np.array(0.1, np.float32)])}
        jax_checkpoint.save_checkpoint(path, 1, state)
        _, restored = jax_checkpoint.restore_checkpoint(path, jax.tree.map(np.zeros_like, state))
        assert jax.tree.structure(restored) == jax.tree.structure(state)
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(restored))
        assert list(map(bits, jax.tree.leaves(restored))) == list(map(bits, jax.tree.leaves(state)))


class TestErrors:
    @both_sides
    @pytest.mark.parametrize(
        ("other", "named"),
        [
            (Config(model="convnet"), "conv1"),
            (Config(model="mlp-by-hand"), "fc1"),
            (Config(model="mlp", dataset="mnist"), "fc1"),
            (Config(model="mlp", optimizer="adam"), "opt"),
        ],
        ids=["another model", "a model by hand", "other shapes", "another optimizer"],
    )
    @pytest.mark.thin(3)
    def test_another_run(self, side: str, other: Config, named: str, path: Path) -> None:
        RUNS[side](Config(model="mlp")).save(path, 1)
        run = RUNS[side](other)
        before = run.state()
        with pytest.raises(WeightsMismatch, match=f"is the checkpoint of another run: it has .*{named}") as caught:
            run.restore(path)
        assert len(str(caught.value)) < 2000
        assert run.state() == before

    @both_sides
    def test_another_precision(self, side: str, path: Path) -> None:
        run = RUNS[side](Config(model="mlp"))
        run.save(path, 1)
        if side == "torch":
            run.model.float()
        else:
            run.state_ = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), run.state_)
        with pytest.raises(WeightsMismatch, match=r"is float64 .*, here float32"):
            run.restore(path)

    def test_another_schedule(self, path: Path) -> None:
        TorchRun(Config(model="mlp", schedule="cosine")).save(path, 1)
        with pytest.raises(WeightsMismatch, match=r"it has schedule is CosineAnnealingLR, here ConstantLR$"):
            TorchRun(Config(model="mlp")).restore(path)

    @pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.9, 0.999])
    def test_a_file_that_is_cut_off(self, kept: float, path: Path) -> None:
        run = TorchRun(Config(model="mlp"))
        run.save(path, 1)
        content = path.read_bytes()
        path.write_bytes(content[: int(kept * len(content))])
        for read in (run.restore, torch_checkpoint.latest_step):
            with pytest.raises(BrokenWeights, match="cannot be read as a checkpoint: "):
                read(path)

    @pytest.mark.parametrize(
        "other", [{"fc1.weight": torch.zeros(2)}, torch.zeros(2), [1]], ids=["weights", "one", "list"]
    )
    def test_a_file_of_something_else(self, other: Any, path: Path) -> None:
        path.parent.mkdir()
        torch.save(other, path)
        with pytest.raises(BrokenWeights, match="but of something else"):
            torch_checkpoint.latest_step(path)

    def test_a_folder_where_a_file_belongs(self, tmp_path: Path) -> None:
        with pytest.raises(BrokenWeights, match=r"cannot be read as a checkpoint: .*directory"):
            torch_checkpoint.latest_step(tmp_path)

    # Orbax drops the arrays that it had not read when the first one failed.
    @pytest.mark.filterwarnings("ignore:(?s).*_read_array_index:pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.parametrize("fault", ["half", "gone"])
    @pytest.mark.sweep
    def test_a_folder_with_a_file_cut_off_or_gone(self, fault: str, path: Path) -> None:
        run = JaxRun(Config(model="mlp-by-hand"))
        run.save(path, 1)
        arrays = max((path / "1").rglob("d/*"), key=lambda file: file.stat().st_size)
        for broken in (path / "1" / "default" / "_METADATA", path / "1" / "default" / "manifest.ocdbt", arrays):
            content = broken.read_bytes()
            if fault == "half":
                broken.write_bytes(content[: len(content) // 2])
            else:
                broken.unlink()
            with pytest.raises(BrokenWeights, match="cannot be read as a checkpoint: "):
                run.restore(path)
            broken.write_bytes(content)
            assert run.restore(path) == 1
        gc.collect()


SAVER = """
import sys
from pathlib import Path
from types import SimpleNamespace

side, path = sys.argv[1], Path(sys.argv[2])
step = int(sys.argv[3])
if side == "torch":
    import torch
    from side_by_side.pytorch.checkpoint import save_checkpoint
    def save(step):
        model = torch.nn.Linear(300, 900)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(step)
        optimizer = torch.optim.SGD(model.parameters(), lr=float(step))
        save_checkpoint(path, step, model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0))
else:
    import numpy as np
    from side_by_side.jax.checkpoint import save_checkpoint
    def save(step):
        save_checkpoint(path, step, {"a": np.full((300, 900), step), "b": [np.full(7, step), np.full((), step)]})
while True:
    save(step)
    print(step, flush=True)
    step += 1
"""


def whole_checkpoint(side: str, path: Path) -> int:
    """The step of the checkpoint that is there; all that is in it is of that step."""
    if side == "torch":
        model = torch.nn.Linear(300, 900)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        step = torch_checkpoint.restore_checkpoint(
            path, model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
        )
        assert optimizer.param_groups[0]["lr"] == step
        leaves = [parameter.detach().numpy() for parameter in model.parameters()]
    else:
        like = {"a": np.zeros((300, 900), int), "b": [np.zeros(7, int), np.zeros((), int)]}
        step, state = jax_checkpoint.restore_checkpoint(path, like)
        leaves = jax.tree.leaves(state)
    assert all((leaf == step).all() for leaf in leaves)
    assert step == MODULES[side].latest_step(path)
    return step


class TestKilled:
    @pytest.mark.daily(2)
    @pytest.mark.parametrize(
        ("side", "kills"),
        [pytest.param(side, kills, marks=pytest.mark.sweep) for side, kills in (("torch", 12), ("jax", 16))],
    )
    def test_there_is_always_a_whole_one(self, side: str, kills: int, path: Path) -> None:
        generator = random.Random(kills)
        left = 0
        step = 1
        for _ in range(kills):
            command = [sys.executable, "-c", SAVER, side, str(path), str(step)]
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as saver:
                assert saver.stdout is not None
                assert int(saver.stdout.readline()) == step  # what the kill before left did not hinder it
                begin = time.perf_counter()
                saver.stdout.readline()
                time.sleep(generator.uniform(0, 2) * (time.perf_counter() - begin))
                saver.kill()
                said = [int(line) for line in saver.stdout.read().split()] or [step + 1]
            found = whole_checkpoint(side, path)
            assert found in (
                said[-1],
                said[-1] + 1,
            )  # the last that was said, or the next one, whole before it was said
            left += len(list(path.parent.glob(".*"))) if side == "torch" else len(list(path.iterdir())) - 1
            step = found + 1
        print(f"\n{side}: {kills} kills, of which {left} left something half written")
        assert left > 0, "no kill came while it saved"
        if side == "torch":
            saved = TorchRun(Config(model="mlp"))
            saved.save(path, step)
            assert [file.name for file in path.parent.iterdir()] == ["checkpoint"]
        else:
            jax_checkpoint.save_checkpoint(path, step, {"a": np.zeros(3)})
            assert [file.name for file in path.iterdir()] == [str(step)]

    def test_a_file_that_is_not_written_beside_is_caught(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The planted fault: written in place, what a kill in the middle leaves is no checkpoint."""
        run = TorchRun(Config(model="mlp"))
        run.save(path, 1)

        def killed(checkpoint: Any, file: Any) -> None:
            file.write(b"PK\x03\x04 and so on")
            raise KeyboardInterrupt

        monkeypatch.setattr(torch, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            run.save(path, 2)
        assert run.restore(path) == 1
        monkeypatch.setattr(Path, "with_name", lambda self, name: self)
        with pytest.raises(KeyboardInterrupt):
            run.save(path, 2)
        with pytest.raises(BrokenWeights):
            run.restore(path)


WORLD = """
import sys, time
from pathlib import Path
import jax
import numpy as np

rank, port, path = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
jax.config.update("jax_enable_x64", True)
jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from side_by_side.jax.checkpoint import latest_step, restore_checkpoint, save_checkpoint

host = {"a": np.arange(6.0).reshape(2, 3) / 7, "b": (np.array(3, np.int32),)}
replicated = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec())
def on_all(array):
    return jax.make_array_from_callback(array.shape, replicated, lambda index: array[index])

assert jax.process_count() == 2
said = path.with_name("saved")
if rank == 0:
    save_checkpoint(path, 3, host)
    save_checkpoint(path, 6, jax.tree.map(on_all, host))
    said.touch()
while not said.exists():  # rank 1 does nothing that rank 0 could wait for
    time.sleep(0.05)
if rank == 1:
    time.sleep(0.5)
assert latest_step(path) == 6
for place in (lambda array: array, jax.numpy.asarray, on_all):
    like = jax.tree.map(lambda array: place(np.zeros_like(array)), host)
    step, state = restore_checkpoint(path, like)
    assert step == 6 and jax.tree.structure(state) == jax.tree.structure(host)
    for got, one, expected in zip(*map(jax.tree.leaves, (state, like, host)), strict=True):
        assert type(got) is type(one) and got.dtype == expected.dtype
        assert getattr(got, "sharding", None) == getattr(one, "sharding", None)
        local = got.addressable_data(0) if isinstance(got, jax.Array) else got
        assert np.asarray(local).tobytes() == expected.tobytes()
print("restored")
"""


@pytest.mark.sweep
def test_one_of_two_processes_saves_and_both_restore(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", WORLD, str(rank), str(port), str(path)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=180)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)
    assert all(one.rstrip().endswith("restored") for one in said)
