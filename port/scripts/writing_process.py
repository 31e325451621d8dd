"""Write an observed script's update in JAX into a folder: in the script's process, with a README."""

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
    "- `train_step.py`: the optimizers, and one jitted update for each in turn",
    "- `turn1.py` and so on: the models that a turn calls and the path to its losses, with their weights; "
    "`model.mapping.toml` covers all models",
]
ENTRY = Path(__file__).with_name("writing") / "__main__.py"
ACCOUNT = "observed"
TRANSLATES = ("jax", "flax", "optax", "ruff", "jinja2")
"""Packages that the script's interpreter needs besides torch, because the model is translated in its process."""
STANDALONE = "--standalone"


@dataclass(frozen=True)
class WrittenUpdate:
    """The result of writing a script's update in JAX.

    Attributes:
        observation: what was observed of the script.
        reasons: why it is not written; empty if it is.
        remarks: the parts of the script that it leaves out, with the line and what to write.
        losses: PyTorch's and JAX's loss of each watched update, in float64.
        loss: their largest relative difference.
        weights: the largest difference of a parameter or a running statistic after the last update.
        status: whether both sides train the same; None if nothing is written.
        call: the call of train_step, as source.
        no_trainer: why there is no train.py around it; empty if there is one.
        draws: how the compared updates were made: without dropout, or with the same random draws.
        why: why both sides cannot be compared, if they cannot.
        turns: the number of optimizers that step in turn; 0 if there is only one.
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
    """Observe a script, and write its update in JAX next to the observation.

    Args:
        script: the user's script.
        folder: the output folder: ``train.py`` and ``original.py`` if its loop is plain, ``train_step.py``,
            ``model.py`` with its weights and mapping, ``torch_loss.py``, a ``README.md``, and in ``observed/`` the
            observation. If the update cannot be written, only the README and the observation.
        steps: how many updates to watch, and to repeat on both sides.
        standalone: whether to copy what the files use of port into them.
        time_limit: the most that it may take in all, in seconds.
        tell: called with one line of text whenever the script makes progress.

    Raises:
        FolderExists, ScriptFailed, UsageError: as `observe`.
    """
    check_has_packages(
        script.python,
        TRANSLATES,
        "the model is translated in the script's process. The CPU builds are enough there: "
        f"{script.python} -m pip install {' '.join(TRANSLATES)}; --observe-only needs none of them",
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
    """The README of a written folder: its files, how to run it, what is proved, and what is left to write.

    Args:
        written: the result.
        folder: the output folder.
        evaluates: whether the folder has the original's evaluation as source.
    """
    command = " ".join(["python", *written.observation.script["command"]])
    lines = [f"# `{command}` in JAX", ""]
    if written.status is None:
        lines += ["Its update is not written, because port cannot write yet:", ""]
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
            f"The losses differ by {written.loss:.1e} at most, the weights after them by {written.weights:.1e}.",
            *([f"It cannot be judged: {written.why}."] if written.why else []),
        ]
    if written.remarks and written.status is not None:
        lines += [
            "",
            "## Left out, or different from the original",
            "",
            *[f"- {remark}" for remark in written.remarks],
        ]
    return "\n".join([*lines, "", f"The observation of the original is in {ACCOUNT}/.", ""])


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
        f"    {command} --resume                # resumes from the last checkpoint",
        f"    {command} --float64 --record record.jsonl",
        "",
        "It starts from the original's initial weights, whatever the seed; checkpoints (Orbax) go",
        "into checkpoints/ here, or where --checkpoints says. To compare both over 200 updates or more:",
        "",
        f"    {_judged(script, folder)}",
    ]


def _judged(script: dict[str, Any], folder: Path) -> str:
    """The command that compares both sides, with paths relative to the current folder."""
    original = script["target"] if script["is_module"] else os.path.relpath(script["target"])
    return f"port train --torch-script {original} --jax-script {os.path.relpath(folder / 'train.py')} --steps 200"


def _files(written: WrittenUpdate, *, evaluates: bool) -> list[str]:
    trainer = [
        "- `train.py`: the loop, the evaluation, checkpoints, the record",
        "- `original.py`: the original's options and data, copied from it",
    ]
    return [
        *([] if written.no_trainer else trainer),
        *(["- `evaluation.py`: the original's evaluation, copied from it"] if evaluates else []),
        *(TURNS if written.turns else ONE),
        "- `torch_loss.py`: that path in PyTorch, the source of the translation",
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
                f"- changed: `lr` is an argument of train_step: the script sets it at {', '.join(one['set_at'])}"
            )
        if one["kind"] == "number":
            lines.append(f"- changed: a number that varies from step to step is an argument: {place_of(one['where'])}")
    return ["Taken over:", "", *dict.fromkeys(lines)]


def _read(observation: Observation, path: Path) -> WrittenUpdate:
    if not path.exists():
        return WrittenUpdate(observation, ("the script was stopped before its update was written",), ())
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    reasons, remarks = tuple(content["reasons"]), tuple(content["remarks"])
    proof = content["proof"]
    if proof is None:
        return WrittenUpdate(observation, reasons, remarks)
    losses = tuple((a, b) for a, b in proof["losses"])
    status = Status(proof["status"])
    details = (
        proof["loss"],
        proof["weights"],
        status,
        content["call"],
        content["no_trainer"],
        proof["draws"],
        proof["why"],
    )
    return WrittenUpdate(observation, (), remarks, losses, *details, turns=content.get("turns", 0))
