"""fully_shard against a state that is cut up by NamedSharding: the same run, at every step; and who holds what."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
import torch.distributed as dist
from flax import nnx
from jax.sharding import PartitionSpec as P
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

import side_by_side.jax.train as jax_train
import side_by_side.pytorch.sharded_replicas as torch_side
from port.errors import UsageError
from port.judging.limits import WEIGHTS_LIMIT
from port.records import Status
from side_by_side.config import OPTIMIZERS, UNSHARDED, Config
from side_by_side.jax.processes import joined
from side_by_side.jax.sharded_replicas import FullySharded, bytes_held, cut
from tests.side_by_side.conftest import Runs, name_of_run, run_module

TWO = Config(model="convnet", steps=24, devices=2, parallel="fsdp")  # over the end of an epoch
FOUR = replace(TWO, devices=4)
ALL = replace(TWO, accumulate=2, clip_norm=0.5, schedule="cosine", optimizer="adam", drop_last=False, augment=True)
"""All there is to combine, at once: microbatches, clipping, a schedule, moments, an uneven last batch, masks."""


@contextmanager
def rank_of(ranks: int, rank: int = 0) -> Iterator[None]:
    """This process as one rank of several, none of which is there: nothing is sent, shapes are as with them."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def sharded(config: Config, rank: int = 0) -> nn.Module:
    import side_by_side.pytorch.train

    model = side_by_side.pytorch.train.build(config)
    torch_side.FullySharded(config, rank, config.replicas).to_device(model, torch.device("cpu"))
    return model


# %% Who holds what


class Blocks(nn.Module):
    """An embedding that the last layer shares, blocks in a list, a parameter of the model's own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight
        self.blocks = nn.ModuleList([nn.Linear(6, 6), nn.ModuleList([nn.LayerNorm(6)])])
        self.table = nn.ParameterList([torch.zeros(3)])
        self.scale, self.norm, self.drop = nn.Parameter(torch.ones(6)), nn.LayerNorm(6), nn.Dropout(0.1)


def test_what_is_gathered_at_a_time_is_a_block_and_the_last_and_what_is_shared_stays_with_the_whole() -> None:
    model = Blocks()
    assert torch_side.units(model) == [model.blocks[0], model.blocks[1][0]]  # type: ignore[index]
    assert torch_side.units(nn.Sequential(nn.Linear(2, 2))) == []


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_ranks_together_hold_every_parameter_once(ranks: int) -> None:
    config = Config(devices=ranks, batch_size=48, parallel="fsdp")
    held = []
    for rank in range(ranks):
        with rank_of(ranks, rank):
            held.append(torch_side.bytes_held(sharded(config, rank).parameters()))
    with rank_of(ranks):
        whole = sum(parameter.numel() * 4 for parameter in sharded(config).parameters())
    assert sum(held) == whole
    assert max(held) < 1.02 * whole / ranks


def test_gradients_and_moments_are_cut_up_as_their_parameters_are() -> None:
    config = replace(FOUR, optimizer="adam")
    with rank_of(4):
        model = sharded(config)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.zeros(4, 1, 8, 8, dtype=torch.uint8)).sum().backward()
        optimizer.step()
        parameters = torch_side.bytes_held(model.parameters())
        gradients = torch_side.bytes_held(parameter.grad for parameter in model.parameters())
        moments = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
        assert gradients == parameters
        assert torch_side.bytes_held(moments) == 2 * parameters


def counted(printed: str) -> dict[int, dict[str, int]]:
    """devices → what → bytes on the first of them."""
    counts = {}
    for line in printed.splitlines():
        devices, _, held = line.partition(" devices: ")
        pairs = re.findall(r"(\w+) ([\d,]+)(?:, |$)", held)
        counts[int(devices)] = {what: int(count.replace(",", "")) for what, count in pairs}
    return counts


def test_torch_counts_a_share_of_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    torch_side.main()
    counts = counted(capsys.readouterr().out)
    assert list(counts) == [1, 2, 4, 8]
    assert counts[1]["parameters"] == counts[1]["gradients"] == 4 * (64 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10)
    for devices, held in counts.items():
        for what, count in held.items():
            assert 1 <= count * devices / counts[1][what] < 1.02, (devices, what)


@pytest.mark.sweep
def test_jax_counts_as_much(capsys: pytest.CaptureFixture[str]) -> None:
    torch_side.main()
    expected = counted(capsys.readouterr().out)
    command = (sys.executable, "-P", "-m", "side_by_side.jax.sharded_replicas")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)
    found = counted(done.stdout)
    assert list(found) == list(expected)
    for devices, held in found.items():
        for what, count in held.items():  # torch's first rank has a row more of ten; each moment its count of updates
            assert 0.985 < count / expected[devices][what] <= 1


@pytest.mark.parametrize(
    ("shape", "spec"),
    [
        ((), P()),
        ((8,), P("replica")),
        ((10,), P()),
        ((6, 8), P(None, "replica")),
        ((16, 8), P("replica")),
        ((8, 8), P("replica")),
        ((3, 3, 12, 10), P(None, None, "replica")),
        ((0, 6), P()),
    ],
)
def test_the_longest_axis_that_four_devices_divide_is_cut(shape: tuple[int, ...], spec: P) -> None:
    assert cut(shape, 4) == spec


def jax_run(config: Config) -> tuple[Any, Any, Any]:
    """The state, the compiled update, and what it takes besides the state."""
    with joined(config) as replicas:
        model = jax_train.build(config, jnp.dtype("float32"))
        model.train()
        graphdef, params, stats = nnx.split(model, nnx.Param, ...)  # type: ignore[misc]  # as nnx documents it
        schedule = jax_train.make_schedule(config, 5)
        optimizer = jax_train.make_optimizer(config, schedule, model)
        state = jax_train.TrainState(params, stats, optimizer.init(params), jnp.zeros((), jnp.int32))
        static = {"graphdef": graphdef, "optimizer": optimizer, "schedule": schedule, "clip_norm": config.clip_norm}
        state = replicas.replicate(state)
        update = replicas.compile(partial(jax_train.train_step, **static, replicas=replicas), state)
        images = np.random.default_rng(0).integers(0, 256, (config.batch_size, 8, 8, 1), np.uint8)
        plan = jax_train.make_plan(config, jax_train.read(config, train=True))
        places = replicas.share(plan, filled=True).places(0)
        batch, sizes = replicas.place(images, np.arange(config.batch_size) % 10, places)
        return state, update, (batch, jax.random.key(0), sizes)


@pytest.mark.sweep
def test_a_device_holds_its_part_of_the_state_before_and_behind_an_update() -> None:
    config = Config(devices=4, parallel="fsdp", optimizer="adam", accumulate=2, clip_norm=0.5)
    state, update, told = jax_run(config)
    leaves = jax.tree.leaves(state)
    undivided = sum(leaf.nbytes for leaf in leaves if cut(leaf.shape, 4) == P())
    whole = sum(leaf.nbytes for leaf in leaves)
    assert undivided < whole / 1000
    assert bytes_held(leaves) == (whole - undivided) / 4 + undivided
    shardings = [leaf.sharding for leaf in leaves]
    compiled = update.lower(state, *told).compile()
    assert "all-gather" in compiled.as_text(), "parameters are gathered where they are used"
    memory = compiled.memory_analysis()
    assert memory.alias_size_in_bytes == bytes_held(leaves), "by the compiler's count: what it is given and gives back"
    after, _ = update(state, *told)
    assert [leaf.sharding for leaf in jax.tree.leaves(after)] == shardings
    assert all(leaf.is_deleted() for leaf in leaves if leaf.ndim), "the state is donated"


@pytest.mark.sweep
@pytest.mark.parametrize(("parallel", "held", "temporary"), [("fsdp", 0.9, 2.3), ("sharding", 3.6, 2.4)])
def test_megabytes_of_a_device_by_the_compilers_count(parallel: str, held: float, temporary: float) -> None:
    """As the lesson tells them."""
    state, update, told = jax_run(Config(devices=4, parallel=parallel, optimizer="adam", clip_norm=0.5))
    memory = update.lower(state, *told).compile().memory_analysis()
    assert memory.alias_size_in_bytes == pytest.approx(held * 1e6, abs=5e4)
    assert memory.temp_size_in_bytes == pytest.approx(temporary * 1e6, abs=5e4)


# %% What cannot be


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch_norm": "replica"}, "--batch-norm replica: jit over a sharded batch computes like one device"),
        ({"dropout_masks": "replica"}, "--dropout-masks replica: jit over a sharded"),
        *(({"optimizer": name}, f"--parallel fsdp: torch's {name} does not support parameters") for name in UNSHARDED),
    ],
)
def test_a_config_that_cannot_be(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        replace(TWO, **options)  # type: ignore[arg-type]
    replace(TWO, **options, devices=1)  # type: ignore[arg-type]


def test_devices_that_divide_nothing_are_named() -> None:
    with joined(Config(devices=3, batch_size=48, parallel="fsdp")) as replicas:
        state = {"kernel": np.zeros((64, 512)), "bias": np.zeros(10)}
        with pytest.raises(UsageError, match=r"3 devices divide no axis of .* \(64, 512\): .*, 2 for example"):
            replicas.replicate(state)
        replicas.replicate({**state, "scale": np.zeros(6)})


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_which_of_torchs_optimizers_take_parameters_that_are_cut_up(name: str) -> None:
    from side_by_side.pytorch.optimizer import make_optimizer

    with rank_of(2):
        model = sharded(Config(devices=2, parallel="fsdp"))
        optimizer = make_optimizer(Config(optimizer=name), model.parameters())
        model(torch.zeros(4, 1, 8, 8, dtype=torch.uint8)).sum().backward()
        if name not in UNSHARDED:
            optimizer.step()
            return
        with pytest.raises(RuntimeError, match="placement"):
            optimizer.step()


# %% The same run


def assert_the_same(outcome: Any, bar: float = 1e-9) -> None:
    assert outcome.verdict.status is Status.AGREE, outcome.verdict.sentence
    assert outcome.verdict.steps.largest()[1] < bar
    assert outcome.weights.difference < WEIGHTS_LIMIT


@pytest.mark.sweep
def test_it_is_the_run_of_one_device(both: Callable[..., Any]) -> None:
    """On the JAX side and on torch's, as statistics and masks are the whole batch's."""
    one = replace(TWO, devices=1, parallel="sharding")
    assert_the_same(both(one, FOUR))
    assert_the_same(both(TWO, one))


RUNS = {
    "2": TWO,
    "4": FOUR,
    "2, all at once": ALL,
    "4, all at once": replace(ALL, devices=4, optimizer="sgd", uneven="weight", split="contiguous"),
    "2 processes of 2": replace(ALL, processes=2),
    "by hand": replace(TWO, model="mlp-by-hand", clip_norm=0.1),
    "3": replace(TWO, devices=3, batch_size=48, optimizer="adamw"),  # some arrays stay whole in JAX
    "mlp": replace(FOUR, model="mlp", dropout=0.3),
}


@pytest.mark.sweep
@pytest.mark.daily(2)
@pytest.mark.parametrize("run", RUNS)
def test_as_many_ranks_and_devices(run: str, both: Callable[..., Any]) -> None:
    assert_the_same(both(RUNS[run], RUNS[run]))


@pytest.mark.sweep
@pytest.mark.daily(3)
@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name not in UNSHARDED])
def test_every_optimizer(optimizer: str, both: Callable[..., Any]) -> None:
    config = Config(steps=12, devices=2, parallel="fsdp", optimizer=optimizer, clip_norm=1.0)
    assert_the_same(both(config, config))


# %% Planted faults

CLIPPED = Config(steps=12, devices=2, parallel="fsdp", clip_norm=0.5, lr=0.5)


def own_norm_in_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each device scales its part by the norm of its part."""

    def wrong(gradients: Any, max_norm: float) -> tuple[Any, jax.Array]:
        specs = jax.tree.map(lambda x: cut(x.shape, CLIPPED.replicas), gradients)

        def scaled(parts: Any) -> Any:
            factor = jnp.minimum(max_norm / (optax.tree.norm(parts) + 1e-6), 1.0)
            return jax.tree.map(lambda x: x * factor, parts)

        mesh = FullySharded(CLIPPED).mesh
        each = jax.shard_map(scaled, mesh=mesh, in_specs=(specs,), out_specs=specs, check_vma=False)
        return each(gradients), optax.tree.norm(gradients)

    monkeypatch.setattr(jax_train, "clip_grad_norm", wrong)


def own_losses_in_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """The losses are divided by a replica's samples, as DDP's are, and nobody averages them."""
    monkeypatch.setattr(FullySharded, "averaged", property(lambda self: self.config.replicas))


IN_JAX = {"own norm": own_norm_in_jax, "own losses": own_losses_in_jax}
IN_TORCH = {
    "own norm": """
import side_by_side.pytorch.optimizer as optimizer

right = optimizer.clip_grad_norm

def wrong(parameters, max_norm):
    parameters = list(parameters)
    norm = right(parameters, None)
    parts = [parameter.grad.to_local() for parameter in parameters]
    own = torch.nn.utils.get_total_norm(parts)
    for part in parts:
        part *= torch.clamp(max_norm / (own + 1e-6), max=1.0)
    return norm

optimizer.clip_grad_norm = wrong
""",
    "own losses": "FullySharded.mean = lambda self, loss: loss",
    "losses over the batch, and then over the ranks": "FullySharded.averaged = 1",
    "gradients summed": """
right = FullySharded.to_device

def wrong(self, model, device):
    right(self, model, device)
    for unit in (*units(model), model):
        unit.set_gradient_divide_factor(1.0)

FullySharded.to_device = wrong
""",
    "optimizer made of whole parameters": """
right = FullySharded.to_device
FullySharded.to_device = lambda self, model, device: None
FullySharded.replicate = lambda self, model: (right(self, model, torch.device("cpu")), model)[1]
""",
}
SCRIPT = """
import runpy
import torch
from side_by_side.pytorch.sharded_replicas import FullySharded, units
{fault}
runpy.run_module("side_by_side.pytorch.train", run_name="__main__", alter_sys=True)
"""


@pytest.mark.sweep
@pytest.mark.parametrize("fault", IN_JAX)
def test_a_fault_in_jax_is_found(fault: str, both: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert_the_same(both(CLIPPED, CLIPPED))
    IN_JAX[fault](monkeypatch)
    verdict = both(CLIPPED, CLIPPED, as_jax=f"fault in jax {fault}").verdict
    assert verdict.status is Status.DIFFER
    print(f"\n{fault}: {verdict.sentence}")


@pytest.mark.sweep
@pytest.mark.parametrize("fault", IN_TORCH)
def test_a_fault_in_torch_is_found(fault: str, both: Callable[..., Any], runs: Runs) -> None:
    assert_the_same(both(CLIPPED, CLIPPED))
    name = f"fault in torch {fault}"
    config = runs._begun(name, CLIPPED)
    script = runs.folder / name / "faulty.py"
    script.write_text(SCRIPT.format(fault=IN_TORCH[fault]))
    run_module("torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), *config.flags())
    verdict = runs.compare(name, name_of_run("jax", CLIPPED)).verdict
    assert verdict.status is Status.DIFFER
    print(f"\n{fault}: {verdict.sentence}")
