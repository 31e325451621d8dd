"""An observed script's update in JAX, in a folder: written in the script's own process, and told of beside it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from port.judging import Status
from port.scripts.observation import Observation
from port.scripts.observing_process import Script, observe, put_account
from port.scripts.terminal import WIDTH, print_observation
from port.scripts.wording import place_of
from port.training import check_has_packages

ONE = [
    "- `train_step.py`: the optimizer and one jitted update",
    "- `model.py`: the model and the path to its loss, with `model.safetensors` and `model.mapping.toml`",
]
TURNS = [
    "- `train_step.py`: the optimizers, and one jitted update of each in its turn",
    "- `turn1.py` and so on: the models that a turn calls, and the path to its losses, with their weights; "
    "`model.mapping.toml` is of all models",
]
ENTRY = Path(__file__).with_name("writing") / "__main__.py"
ACCOUNT = "observed"
TRANSLATES = ("jax", "flax", "optax", "ruff", "jinja2")
"""What the script's interpreter needs besides torch, as its model is translated in its process."""
STANDALONE = "--standalone"


@dataclass(frozen=True)
class WrittenUpdate:
    """What came of writing a script's update in JAX.

    Attributes:
        observation: what was seen of the script.
        reasons: why it is not written; none where it is.
        remarks: what of the script is not part of it, with the line and what to write.
        losses: of each watched update, PyTorch's and JAX's in float64.
        loss: their largest relative difference.
        weights: the largest of a parameter or a running statistic behind the last one.
        status: whether both sides train the same; None where nothing is written.
        call: of train_step, as one writes it.
        no_trainer: why there is no train.py around it; empty where there is one.
        draws: how the updates were made that were compared: without dropout, or with the same random draws.
        why: why both sides cannot be judged, where they cannot.
        turns: of several optimizers that step in turn; 0 where there is one.
    """

    observation: Observation
    reasons: tuple[str, ...]
    remarks: tuple[str, ...]
    losses: tuple[tuple[float, float], ...] = ()
    loss: float = 0.0
    weights: float = 0.0
    status: Status | None = None
    call: str = ""
    no_trainer: str = ""
    draws: str = "without dropout"
    why: str = ""
    turns: int = 0


def write_script(
    script: Script,
    folder: Path,
    *,
    steps: int = 4,
    standalone: bool = False,
    time_limit: float = 600.0,
    tell: Callable[[str], object] = lambda line: None,
) -> WrittenUpdate:
    """Observe a script, and write its update in JAX beside the account of it.

    Args:
        script: the user's.
        folder: where all goes: ``train.py`` and ``original.py`` where its loop is plain, ``train_step.py``,
            ``model.py`` with its weights and mapping, ``torch_loss.py``, a ``README.md``, and in ``observed/`` the
            account. Where the update cannot be written, README and account alone.
        steps: updates that are watched, and made again on both sides.
        standalone: whether what the files take from port is copied into them.
        time_limit: seconds that it may take in all.
        tell: is called with a line whenever the script has come further.

    Raises:
        FolderExists, ScriptFailed, UsageError: as `observe`.
    """
    check_has_packages(
        script.python,
        TRANSLATES,
        "the model is translated in the script's own process. The builds for the CPU are enough there: "
        f"{script.python} -m pip install {' '.join(TRANSLATES)}; --observe-only does without",
    )
    found: list[WrittenUpdate] = []

    def put(observation: Observation, work: Path, beside: Path) -> None:
        (beside / ACCOUNT).mkdir()
        put_account(observation, work, beside / ACCOUNT)
        with (beside / ACCOUNT / "account.txt").open("w", encoding="utf-8") as file:
            print_observation(observation, Console(file=file, width=WIDTH))
        written = _read(observation, work / "written.json")
        if written.status is not None:
            shutil.copytree(work / "written", beside, dirs_exist_ok=True)
        (beside / "README.md").write_text(
            readme(written, folder, evaluates=(beside / "evaluation.py").is_file()), "utf-8"
        )
        found.append(written)

    wishes = (STANDALONE,) if standalone else ()
    observe(script, folder, steps=steps, time_limit=time_limit, tell=tell, entry=ENTRY, wishes=wishes, put=put)
    return found[0]


def readme(written: WrittenUpdate, folder: Path, *, evaluates: bool = False) -> str:
    """What is there, how to run it, what is proved, and what is left to write.

    Args:
        written: what came of it.
        folder: where it goes.
        evaluates: whether the original's evaluation is there in its own lines.
    """
    command = " ".join(["python", *written.observation.script["command"]])
    lines = [f"# `{command}` in JAX", ""]
    if written.status is None:
        lines += ["Its update is not written, as it has what cannot be written yet:", ""]
        lines += [f"- {reason}" for reason in written.reasons]
    else:
        lines += [
            *_how_to_run(written, folder),
            "",
            *_files(written, evaluates=evaluates),
            "",
            "train_step is one update, from a batch to the new weights, with the original's model, loss, clipping,",
            "optimizer and schedule. In a loop of your own, in this folder:",
            "",
            "    from train_step import create, load, train_step",
            "",
            "    graphdef, state = create(load())",
            f"    {written.call}        # once a batch",
            "",
            *_taken_over(written.observation),
            "",
            f"Both sides have made {len(written.losses)} updates on the script's own batches, in float64 and "
            f"{written.draws}: **{written.status}**.",
            "",
            "| update | PyTorch | JAX |",
            "|---|---|---|",
            *[f"| {n} | {a:.12g} | {b:.12g} |" for n, (a, b) in enumerate(written.losses)],
            "",
            f"The losses differ by {written.loss:.1e} at most, the weights behind them by {written.weights:.1e}.",
            *([f"It cannot be judged: {written.why}."] if written.why else []),
        ]
    if written.remarks and written.status is not None:
        lines += [
            "",
            "## Not taken over, or otherwise than in the original",
            "",
            *[f"- {remark}" for remark in written.remarks],
        ]
    return "\n".join([*lines, "", f"What was seen of the original is in {ACCOUNT}/.", ""])


def _how_to_run(written: WrittenUpdate, folder: Path) -> list[str]:
    script = written.observation.script
    if written.no_trainer:
        return [f"There is no train.py yet: {written.no_trainer}."]
    arguments = script["arguments"]
    path = os.path.relpath(folder.resolve() / "train.py", script["folder"])
    command = " ".join(["python", path, *map(shlex.quote, arguments)])
    return [
        f"Run it in {script['folder']}, with the original's options:",
        "",
        f"    {command}",
        f"    {command} --resume                # goes on from the last checkpoint",
        f"    {command} --float64 --record record.jsonl",
        "",
        "It begins with the weights that the original had, whatever the seed; checkpoints (Orbax) go",
        "into checkpoints/ here, or where --checkpoints says. Whether both train the same, over 200 updates and more:",
        "",
        f"    {_judged(script, folder)}",
    ]


def _judged(script: dict[str, Any], folder: Path) -> str:
    """The command that compares both sides, from where one stands."""
    original = script["target"] if script["is_module"] else os.path.relpath(script["target"])
    return f"port train --torch-script {original} --jax-script {os.path.relpath(folder / 'train.py')} --steps 200"


def _files(written: WrittenUpdate, *, evaluates: bool) -> list[str]:
    trainer = [
        "- `train.py`: the loop, the evaluation, checkpoints, the record",
        "- `original.py`: the original's options and data, in its own lines",
    ]
    return [
        *([] if written.no_trainer else trainer),
        *(["- `evaluation.py`: the original's evaluation, in its own lines"] if evaluates else []),
        *(TURNS if written.turns else ONE),
        "- `torch_loss.py`: that path in PyTorch, from which it is translated",
    ]


def _taken_over(observation: Observation) -> list[str]:
    taken = {"backward": "the loss", "clip": "clipping", "update": "the optimizer", "schedule": "its schedule"}
    found: dict[str, str] = {}
    for event in [*observation.steps[0], *observation.epoch]:
        if event["event"] in taken:
            found.setdefault(taken[event["event"]], f"{taken[event['event']]}: {place_of(event['where'])}")
    lines = [f"- {line}" for line in found.values()]
    for one in observation.differences:
        if one["kind"] == "option" and one["set_at"]:
            lines.append(
                f"- changed: `lr` is an argument of train_step, as the script sets it at {', '.join(one['set_at'])}"
            )
        if one["kind"] == "number":
            lines.append(f"- changed: a number that differs from step to step is an argument: {place_of(one['where'])}")
    return ["Taken over:", "", *dict.fromkeys(lines)]


def _read(observation: Observation, path: Path) -> WrittenUpdate:
    if not path.exists():
        return WrittenUpdate(observation, ("the script was ended before its update was written",), ())
    told: dict[str, Any] = json.loads(path.read_text("utf-8"))
    reasons, remarks = tuple(told["reasons"]), tuple(told["remarks"])
    proof = told["proof"]
    if proof is None:
        return WrittenUpdate(observation, reasons, remarks)
    losses = tuple((a, b) for a, b in proof["losses"])
    status = Status(proof["status"])
    told_of = (
        proof["loss"],
        proof["weights"],
        status,
        told["call"],
        told["no_trainer"],
        proof["draws"],
        proof["why"],
    )
    return WrittenUpdate(observation, (), remarks, losses, *told_of, turns=told.get("turns", 0))
