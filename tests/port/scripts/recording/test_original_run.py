"""A script as it is beside the trainer that was written of it: the verdict says agree, and finds what is planted."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from port.judging import Status
from port.scripts import Script
from port.scripts.recording import original_run
from port.scripts.writing_process import write_script
from port.training import Outcome, judge

from ..undefined_names import undefined_names

TRAINERS = Path(__file__).parents[1] / "trainers"
ENTRY = Path(original_run.__file__).with_name("__main__.py")
UPDATES = 12
"""Of 5 in an epoch: it ends within the third."""
FAULTS = {
    "none": ("train.py", "", ""),
    "a schedule that is off by one": ("train_step.py", "gamma=0.5), 5)", "gamma=0.5), 6)"),
    "weight decay on biases": ("train_step.py", "weight_decay=0.0", "weight_decay=0.1"),
    "a mean over the microbatches": (
        "train_step.py",
        "    loss = losses.sum()",
        "    gradients = jax.tree.map(lambda gradient: gradient / 2, gradients)\n    loss = losses.sum()",
    ),
    "an evaluation in training mode": ("train.py", "model.eval()", "model.train()"),
    "the last update dropped": (
        "train.py",
        "enumerate(together(batches, dtype))",
        "enumerate([*together(batches, dtype)][:-1])",
    ),
    "another length": ("original.py", "Points(40, 1, 0.1)", "Points(36, 1, 0.1)"),
    "another order": ("original.py", "shuffle=True", "shuffle=False"),
    "no dropout": ("train.py", "run.masks(step)", "run.masks(0)"),
}


TWO = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29641")
"""Another port than torchrun's own, on which another test may run."""


def environment(folder: Path, side: str) -> dict[str, str]:
    """What the launcher tells a side."""
    return {
        "PORT_RECORD": str(folder / f"{side}.jsonl"),
        "PORT_SIDE": side,
        "PORT_INITIAL_WEIGHTS": str(folder / "initial.safetensors"),
        "PORT_FINAL_WEIGHTS": str(folder / f"{side}.safetensors"),
    }


def run_original(
    written: Path,
    script: Path,
    folder: Path,
    *arguments: str,
    precision: str = "float64",
    launcher: Sequence[str] = (),
) -> str:
    """Record the original's side; returns what it printed."""
    done = subprocess.run(
        [sys.executable, *launcher, str(ENTRY), str(written), str(UPDATES), precision, script.name, *arguments],
        cwd=script.parent,
        env=os.environ | environment(folder, "torch"),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout + done.stderr


def run_written(written: Path, folder: Path, *arguments: str) -> None:
    """Record the written side, in this process: it begins with the original's weights."""
    import jax

    before = sys.argv, dict(sys.modules), jax.config.jax_enable_x64
    sys.argv = [str(written / "train.py"), *arguments, "--record", "x", "--updates", str(UPDATES)]
    sys.argv += ["--float64", "--checkpoints", str(folder / "checkpoints")]
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment(folder, "jax").items():
            patched.setenv(name, value)
        patched.syspath_prepend(str(written))
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            sys.argv = before[0]
            jax.config.update("jax_enable_x64", before[2])
            for name in ("original", "train_step", "model", "evaluation", "turn1", "turn2"):
                sys.modules.pop(name, None)


def verdict(folder: Path) -> Outcome:
    """Over both records and the final weights."""
    weights = folder / "torch.safetensors", folder / "jax.safetensors"
    return judge("float64", folder / "torch.jsonl", folder / "jax.jsonl", (), weights)


def both_sides(folder: Path, name: str, *arguments: str, launcher: tuple[str, ...] = ()) -> tuple[Path, Path]:
    """The folder that was written of a trainer, and what recording it left."""
    shutil.copy(TRAINERS / name, folder)
    written = write_script(Script(str(folder / name), launcher=launcher), folder / "train_jax")
    assert written.status is Status.AGREE and not written.no_trainer, written.no_trainer
    assert not undefined_names(folder / "train_jax")
    recorded = folder / "recorded"
    recorded.mkdir()
    printed = run_original(folder / "train_jax", folder / name, recorded, *arguments, launcher=launcher)
    assert (recorded / "torch.safetensors").exists(), printed
    return folder / "train_jax", recorded


@pytest.fixture(scope="module")
def accumulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("accumulated"), "accumulated.py")


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("averaged"), "averaged.py")


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("noisy"), "noisy.py", "--epochs", "3")


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("carried"), "carried.py", *PIECES)


@pytest.fixture(scope="module")
def seldom(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("seldom"), "seldom.py")


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("in_turn"), "small_gan.py")


@pytest.fixture(scope="module")
def generator_first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("generator_first"), "generator_first.py")


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("at_once"), "lbfgs.py")


@pytest.fixture(scope="module")
def in_parallel(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return both_sides(tmp_path_factory.mktemp("in_parallel"), "parallel.py", launcher=TWO)


def see_found(outcome: Outcome, fault: str, evaluations: int | None = None) -> None:
    """The verdict is right, over all updates, and over the evaluations where their number is said."""
    assert (outcome.verdict.status is Status.AGREE) == (fault == "none"), outcome.verdict.sentence
    assert len(outcome.torch.steps) == UPDATES
    assert evaluations is None or len(outcome.torch.evaluations) == evaluations


def judged(both: tuple[Path, Path], folder: Path, fault: tuple[str, str, str], *arguments: str) -> Outcome:
    """The verdict with a fault planted in the written side."""
    shutil.copytree(both[0], folder / "train_jax")
    shutil.copytree(both[1], folder / "recorded")
    file, before, after = fault
    path = folder / "train_jax" / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1) if before else text)
    run_written(folder / "train_jax", folder / "recorded", *arguments)
    return verdict(folder / "recorded")


@pytest.mark.sweep
@pytest.mark.parametrize("fault", FAULTS)
def test_both_sides_train_the_same(fault: str, accumulated: tuple[Path, Path], tmp_path: Path) -> None:
    try:
        outcome = judged(accumulated, tmp_path, FAULTS[fault])
    except SystemExit:
        assert fault == "another length"  # said before anything is trained
        return
    see_found(outcome, fault, evaluations=2)


AVERAGES = {
    "none": ("train.py", "", ""),
    "an average one step late": ("train_step.py", "AVERAGE.update(params,", "AVERAGE.update(state.params,"),
    "the weights evaluated": ("train.py", "state.average.average", "state.params"),
    "another decay": ("train_step.py", "ema_average(0.9)", "ema_average(0.91)"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("fault", AVERAGES)
def test_averages_and_mixed_precision(fault: str, averaged: tuple[Path, Path], tmp_path: Path) -> None:
    """In float64 autocast casts nothing, and GradScaler's scale is a power of two."""
    outcome = judged(averaged, tmp_path, AVERAGES[fault])
    assert (outcome.verdict.status is Status.AGREE) == (fault == "none"), outcome.verdict.sentence
    assert all(finding.where == "evaluation" for finding in outcome.verdict.findings)
    assert len(outcome.torch.steps) == UPDATES and len(outcome.torch.evaluations) == 2


DRAWS = {
    "none": ("train.py", "", ""),
    "another noise": ("train.py", "run.masks(step)", "run.masks(step + 1)"),
    "another noise in evaluation": ("train.py", "key, number)", "key, number + 1)"),
    "the model's own noise": ("train.py", "masks=run.masks(step) if run else None", "masks=None"),
    "no noise": ("model.py", "* jnp.exp(", "* 0 * jnp.exp("),
}


@pytest.mark.sweep
@pytest.mark.parametrize("fault", DRAWS)
def test_what_a_model_draws_is_the_same(fault: str, noisy: tuple[Path, Path], tmp_path: Path) -> None:
    """Normal numbers and dropout in training, normal numbers in evaluation."""
    outcome = judged(noisy, tmp_path, DRAWS[fault], "--epochs", "3")
    see_found(outcome, fault, evaluations=3)


PIECES = ("--length", "9")
"""Four updates an epoch, and an evaluation that is worse than the one before it."""
CARRIED = {
    "none": ("train.py", "", ""),
    "a state that is not carried over": ("train.py", "loss, carried = train_step", "loss, _ = train_step"),
    "a state that is carried on into the next epoch": (
        "train.py",
        "carried = [np.zeros(shape, dtype) for shape in FIRST]",
        "carried = carried if number else [np.zeros(shape, dtype) for shape in FIRST]",
    ),
    "an evaluation that carries nothing over": ("train.py", "loss, *carried = evaluation", "loss, *_ = evaluation"),
    "the words themselves as targets": ("original.py", "source[i + 1 : i + 1 + length]", "source[i : i + length]"),
    "a rate that stays": ("original.py", "lr /= 4.0", "lr /= 1.0"),
    "a rate that follows too late": ("train.py", "lr = schedule.send(evaluated)", "schedule.send(evaluated)"),
    "another clipping": ("train_step.py", "clip_by_torch_norm(0.25)", "clip_by_torch_norm(0.01)"),
    "another dropout": ("train.py", "run.masks(step)", "run.masks(step + 1)"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("fault", CARRIED)
def test_a_state_that_is_carried_over_and_a_rate_by_hand(
    fault: str, carried: tuple[Path, Path], tmp_path: Path
) -> None:
    """Without a DataLoader: the batches, and the rate, are made by the script's own lines."""
    outcome = judged(carried, tmp_path, CARRIED[fault], *PIECES)
    see_found(outcome, fault, evaluations=3)


SELDOM = {
    "none": ("train.py", "", ""),
    "evaluated in each epoch": ("train.py", "if epoch % args.every == 0:", "if True:"),
    "one order for all epochs": (
        "original.py",
        "torch.randperm(len(train_x), generator=generator)",
        "torch.randperm(len(train_x), generator=torch.Generator().manual_seed(7))",
    ),
    "the last batch dropped": ("original.py", "range(0, len(order), opt", "range(0, len(order) - 4, opt"),
    "an evaluation in training mode": ("train.py", "model.eval()", "model.train()"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("fault", SELDOM)
def test_batches_by_hand_and_an_evaluation_now_and_then(fault: str, seldom: tuple[Path, Path], tmp_path: Path) -> None:
    outcome = judged(seldom, tmp_path, SELDOM[fault])
    see_found(outcome, fault, evaluations=2)


GAN = {
    "none": ("train.py", "", ""),
    "the old discriminator judges": (
        "train_step.py",
        'joined(params, trained), ("G", "D")',
        'joined(state.params, trained), ("G", "D")',
    ),
    "statistics moved twice": ("train_step.py", 'only(moved, ("D",))', 'only(moved, ("D", "G"))'),
    "statistics not moved": ("train_step.py", '    rest = joined(rest, only(moved, ("D",)))\n', ""),
    "another label": ("turn1.py", "full_like(output, 0.9)", "full_like(output, 1.0)"),
    "one loss left out": ("train_step.py", "return loss_real + loss_fake, ", "return loss_real, "),
    "the other's decay": ("train_step.py", "optax.adam(0.001, b1=0.5)", "optax.adam(0.001, b1=0.9)"),
    "other noise": ("original.py", "torch.randn(real", "torch.rand(real"),
    "another fake": ("turn1.py", "lax.stop_gradient(fake)", "fake * 1.000001"),
}
FIRST = {
    "none": ("train.py", "", ""),
    "the stepped generator's points": (
        "train_step.py",
        "model(real, made_of_1)",
        "model(real, nnx.merge(graphdefs[0], params, rest, copy=True).generator(input_0))",
    ),
    "a loss that is not halved": ("turn2.py", " / 2", " / 1"),
    "no clipping": ("train_step.py", "clip_by_torch_norm(0.2)", "clip_by_torch_norm(20.0)"),
    "a schedule that is off by one": ("train_step.py", "gamma=0.5), 5)", "gamma=0.5), 4)"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("fault", GAN)
def test_a_discriminator_and_a_generator_in_turn(fault: str, in_turn: tuple[Path, Path], tmp_path: Path) -> None:
    """Losses, noise and running statistics are the original's; also with a smaller last batch."""
    outcome = judged(in_turn, tmp_path, GAN[fault])
    see_found(outcome, fault)


@pytest.mark.sweep
@pytest.mark.parametrize("fault", FIRST)
def test_a_generator_that_steps_first(fault: str, generator_first: tuple[Path, Path], tmp_path: Path) -> None:
    """What its discriminator is given was made before that step."""
    outcome = judged(generator_first, tmp_path, FIRST[fault])
    see_found(outcome, fault)


PARALLEL = {
    "none": ("train.py", "", ""),
    "one order for all epochs": ("train.py", "            training.set_epoch(epoch)\n", ""),
    "one process's part alone": ("original.py", "*batches)", "batches[0], batches[0])"),
    "the other order of the processes": ("original.py", "range(RANKS)", "reversed(range(RANKS))"),
    "an evaluation in training mode": ("train.py", "model.eval()", "model.train()"),
    "no clipping": ("train_step.py", "clip_by_torch_norm(1.0)", "clip_by_torch_norm(100.0)"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("fault", PARALLEL)
def test_two_processes_are_one_whole_batch(fault: str, in_parallel: tuple[Path, Path], tmp_path: Path) -> None:
    """Under torchrun: SyncBatchNorm is BatchNorm over the whole batch; the order is DistributedSampler's.

    Which process's part stands first decides which rows of a dropout's mask it has.
    """
    outcome = judged(in_parallel, tmp_path, PARALLEL[fault])
    see_found(outcome, fault, evaluations=2)


@pytest.mark.sweep
def test_a_sum_over_each_process_s_part_is_refused(tmp_path: Path) -> None:
    """DDP takes the gradients' mean over the processes: half of what the whole batch's sum gives."""
    text = (TRAINERS / "parallel.py").read_text()
    script = tmp_path / "parallel.py"
    script.write_text(text.replace("(ddp_model(images), labels)", '(ddp_model(images), labels, reduction="sum")'))
    written = write_script(Script(str(script), launcher=TWO), tmp_path / "train_jax")
    assert written.status is not Status.AGREE
    assert any("is it a sum" in reason for reason in written.reasons), written.reasons


ACCELERATED = {
    "none": ("train.py", "", ""),
    "a schedule that is off by one": ("train_step.py", "step_size=5", "step_size=6"),
    "no clipping": ("train_step.py", "clip_by_torch_norm(1.0)", "clip_by_torch_norm(100.0)"),
    "another dropout": ("train.py", "run.masks(step)", "run.masks(step + 1)"),
    "an evaluation in training mode": ("train.py", "model.eval()", "model.train()"),
    "the last update dropped": ("train.py", "in batches)", "in [*batches][:-1])"),
}


@pytest.fixture(scope="module")
def accelerated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("accelerate")
    return both_sides(tmp_path_factory.mktemp("accelerated"), "accelerated.py")


@pytest.mark.sweep
@pytest.mark.parametrize("fault", ACCELERATED)
def test_a_package_that_goes_backward_for_a_script(fault: str, accelerated: tuple[Path, Path], tmp_path: Path) -> None:
    """It makes loaders of its own, which ask for each batch one ahead: also for the last one's dropout."""
    outcome = judged(accelerated, tmp_path, ACCELERATED[fault])
    see_found(outcome, fault, evaluations=2)


OWN = {
    "a trainer's method": ("fitted.py", "none", ("train.py", "", "")),
    "and a rate that falls otherwise": ("fitted.py", "fault", ("train_step.py", "gamma=0.8", "gamma=0.9")),
    "a teacher": ("distilled.py", "none", ("train.py", "", "")),
    "a teacher that trains": ("distilled.py", "fault", ("train_step.py", "    model.teacher.eval()\n", "")),
    "another temperature": ("distilled.py", "fault", ("model.py", "/ 2.0", "/ 2.1")),
    "two losses": ("autoencoder.py", "none", ("train.py", "", "")),
    "one of them weighted otherwise": ("autoencoder.py", "fault", ("model.py", "0.001", "0.0011")),
    "a rate of its own function": ("language.py", "none", ("train.py", "", "")),
    "the embedding's decay": ("language.py", "fault", ("train_step.py", "weight_decay=0.1", "weight_decay=0.0")),
    "mixed images": ("mixed_up.py", "none", ("train.py", "", "")),
    "mixed otherwise": ("mixed_up.py", "fault", ("original.py", "np.random.beta(alpha", "np.random.beta(2 * alpha")),
    "bags of words": ("bagged.py", "none", ("train.py", "", "")),
    "bags of words, some not evaluated": ("bagged.py", "fault", ("original.py", "samples[48:]", "samples[50:]")),
    "bags that begin elsewhere": ("bagged.py", "fault", ("original.py", "offsets[:-1]", "offsets[1:]")),
    "segmented images": ("segmented.py", "none", ("train.py", "", "")),
    "a batch's dice": ("segmented.py", "fault", ("model.py", "+ 1.0", "+ 1.001")),
    "padded sequences": ("sequences.py", "none", ("train.py", "", "")),
    "padding that counts": ("sequences.py", "fault", ("original.py", "padding_value=PAD", "padding_value=EOS")),
    "a rate that falls on a plateau": ("forecast.py", "none", ("train.py", "", "")),
    "that never falls": ("forecast.py", "fault", ("train_step.py", "value, factor=0.5", "value, factor=0.6")),
    "two heads": ("multitask.py", "none", ("train.py", "", "")),
    "another weight of the second": ("multitask.py", "fault", ("model.py", "* 0.3", "* 0.31")),
    "and its evaluation otherwise": ("multitask.py", "fault", ("evaluation.py", "* 0.3", "* 0.31")),
    "sums on the device": ("added_up.py", "none", ("train.py", "", "")),
    "as if all batches were of one size": ("added_up.py", "fault", ("evaluation.py", "* x.shape[0]", "* 16")),
    "a pass that is left early": ("left_early.py", "none", ("train.py", "", "")),
    "and left later": ("left_early.py", "fault", ("train.py", ">= args.limit", "> args.limit")),
    "and other batches left out": ("left_early.py", "fault", ("train.py", "args.skip - 1", "args.skip - 2")),
    "a batch that is looked at": ("looked_at.py", "none", ("train.py", "", "")),
    "and the wrong ones evaluated": ("looked_at.py", "fault", ("train.py", 'loaders["evaluation"], p', "training, p")),
    "the best weights kept": ("best_kept.py", "none", ("train.py", "", "")),
    "and decayed otherwise": ("best_kept.py", "fault", ("train_step.py", "weights(0.0005", "weights(0.0006")),
    "a loss that the model returns": ("returned.py", "none", ("train.py", "", "")),
    "and of other words": ("returned.py", "fault", ("original.py", "batch_size=6, shuffle", "batch_size=5, shuffle")),
    "labels not smoothed": ("mixed_up.py", "fault", ("model.py", "label_smoothing=0.1", "label_smoothing=0.0")),
}
"""A script, and whether the change in what was written of it is a fault."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """Each script is written and recorded once."""
    return cache(lambda name: both_sides(tmp_path_factory.mktemp(name.partition(".")[0]), name))


@pytest.mark.sweep
@pytest.mark.parametrize("case", OWN)
def test_scripts_in_the_styles_that_people_write(
    case: str, own: Callable[[str], tuple[Path, Path]], tmp_path: Path
) -> None:
    name, kind, change = OWN[case]
    see_found(judged(own(name), tmp_path, change), kind)


AT_ONCE = {
    "none": ("train.py", "", ""),
    "another rate": ("train_step.py", "torch_lbfgs(0.8", "torch_lbfgs(0.79"),
    "another target": ("original.py", "waves[:, 1:]", "waves[:, 1:] * 1.000001"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("fault", AT_ONCE)
def test_a_closure_on_all_data_at_once(fault: str, at_once: tuple[Path, Path], tmp_path: Path) -> None:
    outcome = judged(at_once, tmp_path, AT_ONCE[fault])
    see_found(outcome, fault)
