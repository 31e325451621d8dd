"""Loops over steps that draw their batches, and numbers that each update has: both sides train the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .test_original_run import both_sides, environment, judged, see_found

Both = tuple[Path, Path]
LONG = ("--max-steps", "40")
CROPS = {
    "none": ("train.py", "", ""),
    "a rate that is off by one step": ("original.py", "lr = get_lr(step)", "lr = get_lr(step + 1)"),
    "a microbatch too few": ("train_step.py", "(masks, X, Y))", "(masks[1:], X[1:], Y[1:]))"),
    "a mean over the microbatches": (
        "train_step.py",
        "    loss = losses.sum()",
        "    gradients = jax.tree.map(lambda gradient: gradient / 3, gradients)\n    loss = losses.sum()",
    ),
    "weight decay on biases": ("train_step.py", "weight_decay=0.0", "weight_decay=0.1"),
    "batches of another part": ("original.py", 'get_batch("train")', 'get_batch("val")'),
    "an evaluation of one part": ("original.py", '["train", "val"]', '["val", "val"]'),
    "an evaluation in training mode": ("train.py", "model.eval()", "model.train()"),
    "an evaluation that is divided as training": ("train.py", "return 3 * model", "return model"),
    "no dropout": ("train.py", "run.masks(step)", "run.masks(0)"),
}
AHEAD = {
    "none": ("train.py", "", ""),
    "batches of other rows": (
        "original.py",
        "inputs, targets = draw(values[:80])\n            iter_num",
        "inputs, targets = draw(values[:79])\n            iter_num",
    ),
    "a rate that falls too late": ("original.py", "iter_num // 5", "iter_num // 6"),
    "an evaluation too late": ("original.py", "iter_num % 5 == 0", "iter_num % 6 == 0"),
    "an end too early": ("original.py", "iter_num >= args.max_iters", "iter_num >= args.max_iters - 14"),
    "another momentum": ("train_step.py", "momentum=0.9", "momentum=0.8"),
}
MIXED = {
    "none": ("train.py", "", ""),
    "another draw": ("original.py", "torch.randperm(32)[:8]", "torch.randperm(32)[8:16]"),
    "another limit of gradients": ("train_step.py", "clip_by_torch_norm(1.0)", "clip_by_torch_norm(0.1)"),
    "data drawn before the weights": ("original.py", "torch.randn(32, 6)", "torch.randn(32, 6).flip(0)"),
}
BY_HAND = {
    "none": ("train.py", "", ""),
    "a rate that falls faster": ("original.py", "rate *= 0.9", "rate *= 0.8"),
    "a rate that does not halve": ("original.py", "rate /= 2", "rate /= 1"),
}
DISTILLATION = {
    "none": ("train.py", "", ""),
    "a weight that is off by one": ("original.py", "min(1.0, step / 10)", "min(1.0, (step + 1) / 10)"),
    "both weights exchanged": ("original.py", "yield 1 - weight, weight", "yield weight, 1 - weight"),
}
CONTRASTIVE = {
    "none": ("train.py", "", ""),
    "another temperature": ("model.py", "/ 0.2", "/ 0.3"),
    "another order": ("original.py", "shuffle=True", "shuffle=False"),
}


def made(name: str, *arguments: str) -> object:
    """A fixture: what was written of a trainer, and what recording it left."""

    @pytest.fixture(scope="module", name=name)
    def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
        return both_sides(tmp_path_factory.mktemp(name), f"{name}.py", *arguments)

    return both


crops, ahead, mixed, by_hand = made("crops", *LONG), made("ahead"), made("mixed"), made("by_hand")
distillation, contrastive = made("distillation"), made("contrastive")


@pytest.mark.sweep
@pytest.mark.parametrize("fault", CROPS)
def test_microbatches_rates_and_evaluations(fault: str, crops: Both, tmp_path: Path) -> None:
    see_found(judged(crops, tmp_path, CROPS[fault], *LONG), fault, evaluations=2)


@pytest.mark.sweep
@pytest.mark.parametrize("fault", AHEAD)
def test_a_loop_that_ends_by_a_break_and_makes_its_batches_ahead(fault: str, ahead: Both, tmp_path: Path) -> None:
    see_found(judged(ahead, tmp_path, AHEAD[fault]), fault, evaluations=2)


@pytest.mark.sweep
@pytest.mark.parametrize("fault", MIXED)
def test_mixed_precision_and_data_that_is_drawn_behind_weights(fault: str, mixed: Both, tmp_path: Path) -> None:
    see_found(judged(mixed, tmp_path, MIXED[fault]), fault)


@pytest.mark.sweep
@pytest.mark.parametrize("fault", BY_HAND)
def test_a_rate_of_each_update(fault: str, by_hand: Both, tmp_path: Path) -> None:
    see_found(judged(by_hand, tmp_path, BY_HAND[fault]), fault)


@pytest.mark.sweep
@pytest.mark.parametrize("fault", DISTILLATION)
def test_numbers_of_each_update(fault: str, distillation: Both, tmp_path: Path) -> None:
    see_found(judged(distillation, tmp_path, DISTILLATION[fault]), fault)


@pytest.mark.sweep
@pytest.mark.parametrize("fault", CONTRASTIVE)
def test_targets_that_are_counted_along_a_batch(fault: str, contrastive: Both, tmp_path: Path) -> None:
    see_found(judged(contrastive, tmp_path, CONTRASTIVE[fault]), fault)


STOPS = """\
            if step == 12:
                keeper.wait_until_finished()
                os._exit(9)
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "train.py", "--float64", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def losses(record: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in record.read_text().splitlines() if '"loss"' in line]


@pytest.mark.sweep
def test_a_recorded_run_goes_on_from_its_checkpoint(ahead: Both) -> None:
    """With its rate, its batches and its evaluations, bit for bit."""
    folder = ahead[0]
    assert not run(folder, "--record", "whole", "--checkpoints", "a").returncode
    assert not run(folder, "--record", "part", "--checkpoints", "b", "--updates", "10").returncode
    done = run(folder, "--record", "part", "--checkpoints", "b", "--resume")
    assert not done.returncode, done.stderr
    assert losses(folder / "part") == losses(folder / "whole") and len(losses(folder / "whole")) == 24 + 4


@pytest.mark.sweep
def test_one_that_draws_by_itself_goes_on_where_its_generators_were(ahead: Both, tmp_path: Path) -> None:
    folder = ahead[0]
    text = (folder / "train.py").read_text()
    assert "SAVED_EVERY = 100" in text
    try:
        (folder / "train.py").write_text(text.replace("SAVED_EVERY = 100", "SAVED_EVERY = 8"))
        whole = run(folder, "--checkpoints", "c").stdout
        stops = text.replace("SAVED_EVERY = 100", "SAVED_EVERY = 8").replace("step += 1\n", f"step += 1\n{STOPS}")
        (folder / "train.py").write_text(stops.replace("import sys\n", "import os\nimport sys\n"))
        assert run(folder, "--checkpoints", "d").returncode == 9
        (folder / "train.py").write_text(text)
        done = run(folder, "--checkpoints", "d", "--resume")
        assert not done.returncode, done.stderr
        assert done.stdout and whole.endswith(done.stdout) and "step 20: loss" in done.stdout
        assert "step 5: loss" in whole and "step 5:" not in done.stdout  # the checkpoint is of step 8
    finally:
        (folder / "train.py").write_text(text)


@pytest.mark.sweep
def test_a_script_without_the_lines_is_refused(ahead: Both, tmp_path: Path) -> None:
    text = (ahead[0].parent / "ahead.py").read_text()
    (tmp_path / "ahead.py").write_text(text.replace("inputs, targets = draw(", "targets, inputs = draw("))
    entry = Path(__file__).parents[4] / "port" / "scripts" / "recording" / "__main__.py"
    done = subprocess.run(
        [sys.executable, str(entry), str(ahead[0]), "3", "float64", "ahead.py"],
        cwd=tmp_path,
        env=os.environ | environment(tmp_path, "torch"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "no longer has the line `inputs, targets = draw(values[:80])`" in done.stderr
