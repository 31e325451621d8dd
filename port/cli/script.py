"""`port script FILE [options] -- ARGUMENTS`: watches a script and writes its update in JAX."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from port.cli.parsing import parsed
from port.errors import ScriptFailed, UsageError
from port.extras import EXTRAS, require
from port.judging import Status
from port.report.results import printed, result_of_error, result_of_script
from port.scripts import Script, observe
from port.scripts.observing_process import check_free
from port.scripts.terminal import WIDTH, print_observation
from port.scripts.torchrun import MODULES
from port.scripts.writing_process import write_script
from port.scripts.written_terminal import print_written


@dataclass(frozen=True)
class Arguments:
    """Watch an unchanged PyTorch training script for a few updates and one evaluation; report what it does, line by
    line, and write its update in JAX: the model, the loss, clipping, the optimizer and its schedule.

    Arguments after -- are the script's own. It runs in its own process and folder; files that it saves are redirected
    next to the account and do not overwrite yours. The written update is run on the script's own batches next to the
    original's, in float64. Exits 0 if they are the same, 1 if not or if it cannot be written yet, 2 if there is
    nothing to watch, 3 if the script itself failed, 4 if the model draws random numbers differently from JAX.
    """

    script: Annotated[Positional[str], arg(metavar="FILE")] = ""
    """the script, or a module with -m"""
    module: Annotated[bool, arg(aliases=("-m",))] = False
    """FILE is the name of a module, as in python -m my_pkg.train; it runs in the current folder. Several processes:
    port script -m torch.distributed.run -- --nproc-per-node 2 train.py"""
    observe_only: bool = False
    """only print the account, line by line; write no JAX"""
    out: Annotated[Path | None, arg(aliases=("-o",), metavar="FOLDER")] = None
    """the output folder: train_jax/ by default, or observed/ for an account alone, which is observation.json, the
    weights before the first update, the model's inputs, and what the script printed and saved"""
    standalone: bool = False
    """copy into the files what they would import from port: they need JAX, Flax, Optax, Orbax, and torch for data"""
    watch: int = 4
    """updates to watch, for each optimizer"""
    working_folder: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """the script's working directory; by default its own folder"""
    torch_python: Annotated[str, arg(metavar="PATH")] = sys.executable
    """the Python that has the script's packages"""
    time_limit: Annotated[float, arg(metavar="SECONDS")] = 600.0
    """time limit of the script"""
    json: bool = False
    """print the result as JSON, for programs; with --observe-only the account"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    options, own = _parsed(list(arguments))
    out = options.out or Path("observed" if options.observe_only else "train_jax")
    check_free(out)
    if options.module and options.script in MODULES:
        script = Script.by_torchrun(options.script, own, options.working_folder, options.torch_python)
    else:
        script = Script(options.script, tuple(own), options.module, options.working_folder, options.torch_python)
    script.check()
    if script.python != sys.executable:
        require("port script", torch=("psutil",))
    elif options.observe_only:
        require("port script --observe-only", torch=("torch", "psutil"))
    else:
        require("port script", translate=EXTRAS["translate"])
    from port.training.processes import terminate_on_signal

    progress = _Progress(Console(stderr=True))
    run = _observed if options.observe_only else _written
    try:
        with terminate_on_signal():
            return run(options, script, out, progress)
    except ScriptFailed as failure:
        sys.stderr.write(failure.printed)
        hint = "" if script.working_folder() == Path.cwd() else "; --working-folder . runs it here"
        print(f"port: {failure}{hint}", file=sys.stderr)
        if options.json:
            print(printed(result_of_error("script", str(failure), failure.exit_code)))
        return failure.exit_code


def _observed(options: Arguments, script: Script, out: Path, progress: _Progress) -> int:
    with progress:
        observation = observe(script, out, steps=options.watch, time_limit=options.time_limit, tell=progress.say)
    if options.json:
        print((out / "observation.json").read_text("utf-8"), end="")
        return 0
    console = _console()
    print_observation(observation, console)
    beside = "weights, inputs and its output are in the same folder"
    console.print(f"\n[dim]as data:[/] {out / 'observation.json'}[dim]; {beside}[/]", soft_wrap=True)
    return 0


def _written(options: Arguments, script: Script, out: Path, progress: _Progress) -> int:
    with progress:
        limit = options.time_limit
        written = write_script(
            script, out, steps=options.watch, standalone=options.standalone, time_limit=limit, tell=progress.say
        )
    if options.json:
        print(printed(result_of_script(written, out)))
    else:
        console = _console()
        print_observation(written.observation, console)
        console.print()
        print_written(written, out, console)
    return Status.DIFFER.exit_code if written.status is None else written.status.exit_code


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


class _Progress:
    """A status line with the script's progress."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("starting the script …")

    def say(self, what: str) -> None:
        if self._console.is_terminal:
            self._status.update(f"{what} …")
        else:
            print(f"{what} …", file=sys.stderr, flush=True)

    def __enter__(self) -> _Progress:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._console.is_terminal:
            self._status.stop()


def _parsed(arguments: list[str]) -> tuple[Arguments, list[str]]:
    """Split our arguments from the script's own after the dashes.

    Raises:
        UsageError: no script is named.
    """
    place = arguments.index("--") if "--" in arguments else len(arguments)
    options = parsed(Arguments, "script", arguments[:place])
    if not options.script:
        raise UsageError("name the script: port script train.py --observe-only -- --its-own arguments")
    return options, arguments[place + 1 :]
