"""The line through points: pmap and DDP print the same numbers, and a mistake of either kind shows in them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
import torch.distributed as dist

import side_by_side.jax.linear_regression as jax_lesson
import side_by_side.pytorch.linear_regression as torch_lesson

LESSONS = {"pytorch": torch_lesson, "jax": jax_lesson}
MODULES = {side: ["-m", lesson.__name__] for side, lesson in LESSONS.items()}
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class Printed:
    """What a lesson printed, read back."""

    lines: list[str]

    @property
    def losses(self) -> dict[int, float]:
        found = [re.fullmatch(r"step +(\d+): loss (\S+)", line) for line in self.lines]
        return {int(match[1]): float(match[2]) for match in found if match}

    @property
    def line(self) -> tuple[float, float]:
        weight, bias = re.fullmatch(r"after \d+ steps: weight (\S+), bias (\S+)", self.lines[-1]).groups()
        return float(weight), float(bias)

    def described(self, what: str) -> tuple[str, list[str]]:
        """What is said of an array, and of its part on each device or rank."""
        (start,) = [number for number, line in enumerate(self.lines) if line.startswith(f"{what}:")]
        parts = []
        for line in self.lines[start + 1 :]:
            if not line.startswith("    "):
                break
            parts.append(line.strip())
        return self.lines[start], parts


def first_numbers(parts: Sequence[str]) -> list[float]:
    return [float(part.split()[-1]) for part in parts]


def start(command: Sequence[str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "error", *command, *arguments],
        env=os.environ | ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> Printed:
    """A hang is a failure, and leaves no rank behind."""
    try:
        out, err = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        pytest.fail(f"{process.args} hangs: {process.communicate()}")
    assert process.returncode == 0, out + err
    assert "warning" not in err.lower()
    return Printed(out.splitlines())


def difference(one: Printed, other: Printed) -> float:
    """The largest relative difference of all losses and of the final line."""
    assert list(one.losses) == list(other.losses)
    pairs = zip([*one.losses.values(), *one.line], [*other.losses.values(), *other.line], strict=True)
    return max(abs(a - b) / abs(b) for a, b in pairs)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fit")
    return {side: folder / f"{side}.png" for side in LESSONS}


@pytest.fixture(scope="module")
def printed(pictures) -> dict[str, Printed]:
    """Both lessons as a reader runs them, beside one another: two replicas, a thousand steps."""
    started = {side: start(command, "--plot", str(pictures[side])) for side, command in MODULES.items()}
    return {side: finish(process) for side, process in started.items()}


def descent(points: tuple[np.ndarray, np.ndarray], params: tuple[float, float], steps: int) -> tuple[list, list]:
    """Gradient descent on the mean squared error, written out."""
    (xs, ys), (weight, bias), losses = points, params, []
    for _ in range(steps):
        errors = weight * xs + bias - ys
        losses.append((errors**2).mean())
        weight, bias = weight - 0.005 * 2 * (errors * xs).mean(), bias - 0.005 * 2 * errors.mean()
    return [weight, bias], losses


@pytest.mark.sweep
def test_both_sides_print_the_same_losses_and_the_same_line(printed):
    assert list(printed["jax"].losses) == [0, 200, 400, 600, 800, 999]
    assert difference(printed["jax"], printed["pytorch"]) <= 1e-12


@pytest.mark.sweep
def test_the_numbers_are_those_of_gradient_descent(printed):
    line, losses = descent(torch_lesson.draw_points(0), torch_lesson.init_params(0), 1000)
    for side in LESSONS:
        np.testing.assert_allclose(printed[side].line, line, rtol=1e-12)
        for step, loss in printed[side].losses.items():
            np.testing.assert_allclose(loss, losses[step], rtol=1e-12)
    slope, intercept = np.polyfit(*(array.ravel() for array in torch_lesson.draw_points(0)), 1)
    np.testing.assert_allclose(line, [slope, intercept], rtol=1e-3)  # it has converged
    np.testing.assert_allclose(line, [2, -1], atol=4 * 0.5 / np.sqrt(128))  # to the line that the points are from


def test_both_begin_with_the_same_numbers():
    for ours, theirs in zip(jax_lesson.draw_points(5), torch_lesson.draw_points(5), strict=True):
        assert (ours.shape, ours.dtype) == ((128, 1), np.float64)
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(jax_lesson.init_params(5), torch_lesson.init_params(5))
    points = jax_lesson.draw_points(5)
    noise = points.ys - (2 * points.xs - 1)
    assert abs(noise.std() - 0.5) < 0.1


@pytest.mark.sweep
def test_jax_says_where_each_array_is(printed):
    head, _ = printed["jax"].described("xs, drawn")
    assert "numpy.ndarray, float64, (128, 1), in the host's memory" in head
    head, parts = printed["jax"].described("xs, split")
    assert "jax.Array, float64, (2, 64, 1)" in head
    assert [part.split(", the")[0] for part in parts] == ["on cpu:0: (1, 64, 1)", "on cpu:1: (1, 64, 1)"]
    points = jax_lesson.draw_points(0)
    np.testing.assert_allclose(first_numbers(parts), points.xs[[0, 64], 0], rtol=1e-14)
    for what in ("weight, replicated", "weight, updated"):
        head, parts = printed["jax"].described(what)
        assert "jax.Array, float64, (2,), NamedSharding" in head
        first, second = first_numbers(parts)
        assert first == second
    head, parts = printed["jax"].described("weight, one copy")
    assert "jax.Array, float64, (), SingleDeviceSharding" in head
    assert first_numbers(parts) == [printed["jax"].line[0]]


@pytest.mark.sweep
def test_torch_says_where_each_tensor_is(printed):
    _, parts = printed["pytorch"].described("xs, drawn")
    assert "the host's memory: numpy.ndarray, float64, (128, 1)" in parts[0]
    _, parts = printed["pytorch"].described("xs, split")
    assert [part.split(", the")[0] for part in parts] == [
        f"rank {rank}, cpu: torch.Tensor, torch.float64, (64, 1)" for rank in range(2)
    ]
    assert first_numbers(parts) == first_numbers(printed["jax"].described("xs, split")[1])
    for what in ("weight, replicated", "weight, updated in place", "gradient of the weight, the mean of all ranks'"):
        _, parts = printed["pytorch"].described(what)
        assert "torch.float64, (1, 1)" in parts[0]
        first, second = first_numbers(parts)
        assert first == second


@pytest.mark.sweep
@pytest.mark.parametrize("side", LESSONS)
def test_the_fit_is_drawn(side, printed, pictures):
    from matplotlib.image import imread

    picture = imread(pictures[side])
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 3  # paper, points and two lines


def test_in_this_process_on_one_device_of_each(tmp_path):
    """The functions by themselves; and what JAX is given is used up, what torch is given changes."""
    points, params = torch_lesson.draw_points(3), torch_lesson.init_params(3)
    line, losses = descent(points, params, 30)

    with jax.enable_x64(True):
        mesh = jax_lesson.where_to_run(1)
        before = jax_lesson.replicate(params, mesh)
        after, ours = jax_lesson.train(before, jax_lesson.split(points, mesh), mesh, 30)
        assert before.weight.is_deleted()
        found = jax_lesson.one_copy(after)
    np.testing.assert_allclose(ours, losses, rtol=1e-12)
    np.testing.assert_allclose(found, line, rtol=1e-12)

    dist.init_process_group("gloo", init_method=(tmp_path / "ranks").as_uri(), rank=0, world_size=1)
    try:
        model = torch_lesson.replicate(params, torch.device("cpu"))
        theirs = torch_lesson.train(model, torch_lesson.split(points, torch.device("cpu")), 30)
        found = torch_lesson.one_copy(model)
    finally:
        dist.destroy_process_group()
    np.testing.assert_allclose(theirs, losses, rtol=1e-12)
    np.testing.assert_allclose(found, line, rtol=1e-12)


@dataclass(frozen=True)
class Fault:
    side: str
    right: str
    wrong: str


PMEAN = "    loss, gradients = jax.lax.pmean((loss, gradients), axis_name="
FAULTS = {
    "no mean of the gradients": Fault("jax", PMEAN, "    loss = jax.lax.pmean(loss, axis_name="),
    "the gradient of the mean": Fault(  # D3
        "jax",
        "jax.value_and_grad(loss_fn)(params, points)\n" + PMEAN + '"replicas")\n',
        'jax.value_and_grad(lambda *args: jax.lax.pmean(loss_fn(*args), "replicas"))(params, points)\n',
    ),
    "the sum of the gradients": Fault("jax", "pmean((loss, gradients)", "psum((loss, gradients)"),
    "forward past the wrapper": Fault("pytorch", "predictions = model(", "predictions = model.module("),
    "every rank with the same shard": Fault("pytorch", "[dist.get_rank()]", "[0]"),
}
PART = {"no mean of the gradients", "the gradient of the mean", "forward past the wrapper"}
LONG = FAULTS.keys() - {"the gradient of the mean"}


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.sweep) if name in LONG else name for name in FAULTS]
)
def test_a_mistake_is_found(name, printed, tmp_path):
    fault = FAULTS[name]
    source = Path(LESSONS[fault.side].__file__).read_text()
    assert source.count(fault.right) == 1
    (tmp_path / "wrong.py").write_text(source.replace(fault.right, fault.wrong))
    wrong = finish(start([str(tmp_path / "wrong.py")]))
    (twin,) = LESSONS.keys() - {fault.side}
    assert difference(wrong, printed[twin]) > 1e-4

    updated = "weight, updated" if fault.side == "jax" else "weight, updated in place"
    first, second = first_numbers(wrong.described(updated)[1])
    assert (first != second) == (name in PART)  # seen in what is printed, where the copies part


@pytest.mark.parametrize("side", LESSONS)
@pytest.mark.parametrize("arguments", [["--replicas", "3"], ["--replicas", "0"], ["--steps", "0"]], ids=" ".join)
def test_an_uneven_split_is_refused(side, arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lesson", *arguments])
    with pytest.raises(SystemExit) as refused:
        LESSONS[side].main()
    assert refused.value.code == 2
    assert "at least one step; as many replicas as divide 128 points evenly" in capsys.readouterr().err


@pytest.mark.sweep
def test_torchrun_may_start_the_ranks(printed):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # --replicas is torchrun's to say.
    by_torchrun = finish(start([*torchrun, *MODULES["pytorch"]], "--replicas", "1"))
    assert by_torchrun.lines == printed["pytorch"].lines


@pytest.mark.sweep
@pytest.mark.parametrize("replicas", ["1", "4"])
def test_the_number_of_replicas_changes_nothing(replicas, printed):
    for side, command in MODULES.items():
        assert difference(finish(start(command, "--replicas", replicas)), printed[side]) <= 1e-12


def test_the_same_definitions_in_the_same_order():
    ours, theirs = (
        [
            (type(node).__name__, node.name)
            for node in ast.parse(Path(lesson.__file__).read_text()).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        for lesson in LESSONS.values()
    )
    assert ours == theirs
