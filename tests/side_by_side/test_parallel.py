"""The lesson on data parallelism: both sides print the same numbers, and what it says of pmap and shard_map holds.

The replicas live in processes of their own: this one has a single CPU device.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import side_by_side.pytorch.parallel as lesson
from tests.side_by_side.lesson_output import Printed, differences, output

ROOT = Path(lesson.__file__).parents[1]
REPLICAS = 3  # with two, a ring is the same in both directions
LIMIT = 1e-12


def start(*command: str | Path) -> subprocess.Popen[str]:
    # XLA's flag asks for another number of devices than the lesson, which wins.
    flags = {
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=7",
    }
    environment = {**os.environ, **flags, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-P", *command], stdout=pipe, stderr=pipe, text=True, encoding="utf-8", env=environment
    )


def read(text: str) -> Printed:
    """title → name → numbers, without the drawing of the sharded array."""
    printed: Printed = {}
    for line in text.splitlines():
        if line.startswith("# "):
            results = printed.setdefault(line[2:], {})
        elif ": " in line:
            name, numbers = line.split(": ")
            results[name] = np.array(numbers.split(), dtype=float)
    return printed


def stacked(results: dict[str, np.ndarray], name: str, replicas: int = REPLICAS) -> np.ndarray:
    return np.stack([results[f"{name}, replica {replica}"] for replica in range(replicas)])


def drawn(*shape: int, seed: int) -> np.ndarray:
    return lesson.draw(*shape, seed=seed).numpy()


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=LIMIT)


def text(side: str) -> str:
    return output(start("-m", f"side_by_side.{side}.parallel", "--replicas", str(REPLICAS)))


@pytest.fixture(scope="module")
def jax_text() -> str:
    return text("jax")


@pytest.fixture(scope="module")
def in_jax(jax_text: str) -> Printed:
    return read(jax_text)


@pytest.fixture(scope="module")
def torch_text() -> str:
    return text("pytorch")


@pytest.fixture(scope="module")
def in_torch(torch_text: str) -> Printed:
    return read(torch_text)


# What both sides print


@pytest.mark.sweep
def test_both_sides_print_the_same_numbers(in_jax, in_torch):
    found = differences(in_jax, in_torch)
    assert len(found) == 11
    assert max(found.values()) <= LIMIT, found


@pytest.mark.parametrize("side", ["jax", "pytorch"])
@pytest.mark.thin(2)
def test_a_heading_is_a_cells_title(side, in_jax):
    cells = {line[5:] for line in (ROOT / side / "parallel.py").read_text("utf-8").splitlines() if line[:5] == "# %% "}
    assert set(in_jax) == cells - {"Replicas", "A model, its loss, some updates", "All of it"}


def test_the_sharded_array_is_drawn(jax_text):
    for replica in range(REPLICAS):
        assert f"│ CPU {replica} │" in jax_text


@pytest.mark.sweep
def test_the_sharded_tensor_is_drawn(torch_text):
    for replica in range(REPLICAS):
        assert f"│cpu:{replica}│" in torch_text


def test_each_replica_has_its_part(in_jax):
    rows = drawn(REPLICAS * lesson.SAMPLES, 3, seed=8).reshape(REPLICAS, -1)
    close(stacked(in_jax["Sharded data"], "rows"), rows)
    x, y = drawn(REPLICAS, 3, seed=3), drawn(REPLICAS, 3, seed=4)
    close(stacked(in_jax["A dot product on every replica"], "dot")[:, 0], (x * y).sum(1))
    square = drawn(REPLICAS, REPLICAS, seed=6)
    parts = in_jax["What each replica gets"]
    close(stacked(parts, "in_axes 0"), square)
    close(stacked(parts, "in_axes 1"), square.T)
    close(stacked(parts, "in_axes None"), np.stack([square.ravel()] * REPLICAS))
    dots = drawn(REPLICAS, lesson.SAMPLES, 3, seed=7) @ drawn(3, seed=5)
    close(stacked(in_jax["vmap inside pmap"], "dot"), dots)
    close(stacked(in_jax["vmap inside pmap"], "above the mean"), dots - dots.mean())


def test_the_collectives(in_jax):
    x = drawn(REPLICAS, 3, seed=3)
    found = in_jax["Collectives"]
    close(stacked(found, "sum"), np.stack([x.sum(0)] * REPLICAS))
    close(stacked(found, "mean"), np.stack([x.mean(0)] * REPLICAS))
    close(stacked(found, "all_gather"), np.stack([x.ravel()] * REPLICAS))
    close(stacked(found, "ring"), np.roll(x, 1, axis=0))  # from the one before


@pytest.mark.sweep
def test_each_form_trains_the_model_as_one_device_does(in_jax, in_torch):
    """The losses, and the parameters that the model has at the end."""
    model = lesson.Net()
    optimizer = torch.optim.SGD(model.parameters(), lesson.LR)
    x = lesson.draw(REPLICAS * lesson.SAMPLES, lesson.FEATURES, seed=8)
    y = lesson.draw(REPLICAS * lesson.SAMPLES, 1, seed=9)
    losses = []
    for _ in range(lesson.UPDATES):
        loss = lesson.loss_fn(model, x, y)
        loss.backward()
        losses.append(loss.item())
        lesson.descend(optimizer)
    assert np.abs(model.w1.detach().numpy() - drawn(lesson.FEATURES, lesson.HIDDEN, seed=1)).max() > 1e-2
    for printed in (in_jax, in_torch):
        forms = [results for title, results in printed.items() if title.startswith("A train step")]
        assert len(forms) == 3
        for results in forms:
            close(results["losses"], np.array(losses))
            for name, parameter in model.named_parameters():
                close(results[name], parameter.detach().numpy().ravel())


# The traps


@pytest.mark.sweep
def test_a_mean_of_means_over_uneven_shards_is_not_the_mean(in_jax, in_torch):
    sizes = [2 * replica + 1 for replica in range(REPLICAS)]
    losses = drawn(sum(sizes), seed=10)
    means = np.mean([part.mean() for part in np.split(losses, np.cumsum(sizes)[:-1])])
    for printed in (in_jax, in_torch):
        found = printed["Shards of uneven size"]
        close(found["whole"], losses.mean())
        close(found["mean of means"], means)
        close(found["weighted"], losses.mean())
        assert abs(found["mean of means"] - found["whole"]) > 1e-2


@pytest.mark.sweep
def test_reduced_twice_is_n_times_the_gradient_and_never_reduced_is_each_replicas_own(in_jax, in_torch):
    x = drawn(REPLICAS * lesson.SAMPLES, 3, seed=8).reshape(REPLICAS, -1, 3)
    y = drawn(REPLICAS * lesson.SAMPLES, 1, seed=9).reshape(REPLICAS, -1)
    w = drawn(3, seed=5)
    own = np.stack([2 * rows.T @ (rows @ w - targets) / len(rows) for rows, targets in zip(x, y, strict=True)])
    assert np.abs(own - own.mean(0)).max() > 1e-1
    for printed in (in_jax, in_torch):
        found = printed["What goes wrong"]
        close(stacked(found, "right"), np.stack([own.mean(0)] * REPLICAS))
        close(stacked(found, "reduced twice"), np.stack([REPLICAS * own.mean(0)] * REPLICAS))
        close(stacked(found, "never reduced"), own)


def test_adam_hides_a_gradient_that_is_too_large():
    updated = []
    for factor in (1, REPLICAS):
        w = torch.nn.Parameter(lesson.draw(3, seed=0))
        w.grad = factor * lesson.draw(3, seed=1)
        torch.optim.Adam([w], lesson.LR).step()
        updated.append(w.detach())
    assert (updated[0] - updated[1]).abs().max() < 1e-6
    assert (updated[0] - lesson.draw(3, seed=0)).abs().min() > 1e-2


FACTS = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from side_by_side.jax.parallel import draw, make_mesh, make_mesh_the_older_way, start

start(4)
facts = {"devices": jax.device_count()}
x, w, mesh = draw(4, 3, seed=0), draw(3, seed=1), make_mesh(4)

def refused(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no"

facts["set too late"] = refused(jax.config.update, "jax_num_cpu_devices", 5)

shapes = []
double = jax.pmap(lambda row: shapes.append(row.shape) or 2 * row)
double(x), double(x)
facts["shapes that the body saw"] = shapes
result = double(x)
facts["jaxpr"] = str(jax.make_jaxpr(jax.pmap(jnp.sin))(x))
facts["spread"] = isinstance(result.sharding, NamedSharding) and not result.sharding.is_fully_replicated
facts["[0] is on all"] = result[0].sharding.is_fully_replicated and len(result[0].sharding.device_set) == 4
facts["first shard"] = np.array_equal(np.squeeze(result.addressable_shards[0].data), 2 * x[0])
facts["first shard is on"] = len(result.addressable_shards[0].data.sharding.device_set)
facts["out_axes"] = [jax.pmap(lambda row: row, out_axes=axis)(x).shape for axis in (0, 1, None)]
facts["out_axes=None is replica 0's"] = np.array_equal(jax.pmap(lambda row: row, out_axes=None)(x), x[0])

def total(mesh):
    return jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "replica"), mesh=mesh, in_specs=P("replica"), out_specs=P()))

explicit = jax.make_mesh((4,), ("replica",))
facts["axis types"] = [m.axis_types[0].name for m in (explicit, mesh, make_mesh_the_older_way(4))]
facts["explicit refuses"] = refused(total(explicit), x)
on_mesh = jax.device_put(x, NamedSharding(explicit, P("replica")))
facts["explicit takes what is on it"] = refused(total(explicit), on_mesh)
facts["auto refuses"] = refused(total(mesh), x)
facts["the same devices"] = list(mesh.devices) == list(make_mesh_the_older_way(4).devices) == jax.devices()
unchecked = jax.jit(jax.shard_map(lambda x: x.sum(), mesh=mesh, in_specs=P("replica"), out_specs=P()))
facts["P() refuses what varies"] = refused(unchecked, x)

loss = lambda w, x: ((x @ w) ** 2).mean()
def factor(body, **options):
    mapped = jax.shard_map(body, mesh=mesh, in_specs=(P(), P("replica")), out_specs=P(), **options)
    return np.ravel(jax.jit(mapped)(w, x) / jax.grad(loss)(jnp.asarray(w), x)).tolist()

mean_of_gradient = lambda w, x: jax.lax.pmean(jax.grad(loss)(w, x), "replica")
varying = lambda w: jax.lax.pcast(w, "replica", to="varying")
facts["factors"] = {
    "pmean of gradient": factor(mean_of_gradient),
    "gradient of pmean": factor(lambda w, x: jax.grad(lambda w: jax.lax.pmean(loss(w, x), "replica"))(w)),
    "cast to varying": factor(lambda w, x: mean_of_gradient(varying(w), x)),
    "check_vma=False": factor(mean_of_gradient, check_vma=False),
}
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts() -> dict:
    return json.loads(output(start("-c", FACTS)))


@pytest.mark.sweep
def test_the_devices_are_as_many_as_the_lesson_says_if_it_says_so_in_time(facts):
    assert facts["devices"] == 4  # XLA_FLAGS says 7
    assert facts["set too late"].startswith("RuntimeError")


@pytest.mark.sweep
def test_pmap_drops_the_mapped_axis_and_compiles_by_itself(facts):
    assert facts["shapes that the body saw"] == [[3]]  # one trace, three calls
    assert "jit[" in facts["jaxpr"]
    assert "shard_map[" in facts["jaxpr"]


def test_a_result_of_pmap_is_one_array_whose_first_row_is_gathered(facts):
    assert facts["spread"]
    assert facts["[0] is on all"]
    assert facts["first shard"]
    assert facts["first shard is on"] == 1
    assert facts["out_axes"] == [[4, 3], [3, 4], [3]]
    assert facts["out_axes=None is replica 0's"]


def test_axis_types(facts):
    assert facts["axis types"] == ["Explicit", "Auto", "Auto"]
    assert "in_specs passed to shard_map" in facts["explicit refuses"]
    assert facts["explicit takes what is on it"] == "no"
    assert facts["auto refuses"] == "no"
    assert facts["the same devices"]
    assert "out_specs" in facts["P() refuses what varies"]


def test_the_factor_of_a_gradient_under_shard_map(facts):
    expected = {"pmean of gradient": 4, "gradient of pmean": 1, "cast to varying": 1, "check_vma=False": 1}
    for body, factors in facts["factors"].items():
        close(np.array(factors), np.full(3, expected.pop(body)))
    assert not expected


# The comparison can fail

FAULTS = {
    "jax": {
        "A dot product on every replica": ("jax.pmap(jnp.dot)(x, y)", "jax.pmap(jnp.dot)(x, x)"),
        "What each replica gets": ("(numbers, x) for", "(numbers, x.T) for"),
        "vmap inside pmap": ('dot, ("replica", "sample")', 'dot, "sample"'),
        "Collectives": ("(replica + 1) % len(x)", "(replica - 1) % len(x)"),
        "A mesh of devices": ("[device.id for device in mesh", "[device.id + 1 for device in mesh"),
        "Sharded data": ("device_put(x, ", "device_put(x[::-1], "),
        "A train step: gradients averaged by hand": (
            'loss, gradients = jax.lax.pmean((loss, gradients), "replica")',
            'loss = jax.lax.pmean(loss, "replica")',
        ),
        "A train step: averaged in the backward pass": ("jax.lax.pmean(loss_fn(", "jax.lax.psum(loss_fn("),
        "A train step: written for the whole batch": (
            "shard(y, mesh))\n    nnx.update(model, params)",
            "shard(y, mesh)[::-1])\n    nnx.update(model, nnx.state(Net()))",  # not written back
        ),
        "Shards of uneven size": ("mask.sum() * len(sizes)", "len(sizes)"),
        "What goes wrong": ("shard_map(mean_of_gradient", "shard_map(gradient_of_mean"),
    },
    "pytorch": {
        "A dot product on every replica": ("torch.dot(x[replica], y", "torch.dot(x[replica], x"),
        "What each replica gets": ("x[:, replica]", "x[replica, :]"),
        "vmap inside pmap": ("    dist.all_reduce(mean)\n", ""),
        "Collectives": ('"ring": received', '"ring": x[replica]'),
        "A mesh of devices": ("mesh.mesh for", "mesh.mesh + 1 for"),
        "Sharded data": ("distribute_tensor(x, ", "distribute_tensor(x.flip(0), "),
        "A train step: gradients averaged by hand": ("tensor /= replicas", "pass"),
        "A train step: averaged in the backward pass": (
            "DistributedDataParallel(model), by_replica",
            "model, by_replica",
        ),
        "A train step: written for the whole batch": ("model.load_state_dict({", "dict({"),
        "Shards of uneven size": ("len(own) * len(sizes)", "len(sizes)"),
        "What goes wrong": ("dist.all_reduce(reduced_twice)", "pass"),
    },
}


@pytest.mark.sweep
@pytest.mark.parametrize("side", ["jax", "pytorch"])
def test_a_mistake_in_any_of_it_is_found(side, tmp_path, in_jax):
    source = (ROOT / side / "parallel.py").read_text("utf-8")
    for right, wrong in FAULTS[side].values():
        assert source.count(right) == 1, right
        source = source.replace(right, wrong)
    (tmp_path / "wrong.py").write_text(source, "utf-8")
    found = differences(in_jax, read(output(start(tmp_path / "wrong.py", "--replicas", str(REPLICAS)))))
    assert set(FAULTS[side]) == set(found)
    assert min(found.values()) > 1e-3, found


@pytest.mark.sweep
@pytest.mark.parametrize("replicas", ["2", "4"])
def test_by_torchs_launcher_and_with_other_numbers_of_replicas(replicas):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", replicas]
    started = start(*launcher, "-m", "side_by_side.pytorch.parallel")
    in_jax = read(output(start("-m", "side_by_side.jax.parallel", "--replicas", replicas)))
    assert max(differences(in_jax, read(output(started))).values()) <= LIMIT


@pytest.mark.sweep
def test_too_few_devices_are_named():
    code = "import jax; jax.device_count = lambda: 1; from side_by_side.jax.parallel import start; start(2)"
    process = start("-c", code)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert errors.endswith("JAX sees 1 device(s), not 2; JAX_PLATFORMS=cpu takes virtual ones\n")
