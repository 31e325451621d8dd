"""Run a script under observation in a separate process, report its progress, and end it with all its children."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from port.errors import FolderExists, NoPair, ScriptFailed, UsageError
from port.scripts.events import Event, read_events
from port.scripts.observation import FILE, Observation
from port.scripts.refusals import refuse
from port.scripts.torchrun import launched
from port.training import check_may_run
from port.training.folder import write_json

PATIENCE = 5.0
"""How long to wait for the evaluation, as a multiple of the time that the watched steps took."""
LEAST_PATIENCE = 30.0
POLL_SECONDS = 0.05
ENTRY = Path(__file__).with_name("observing") / "__main__.py"


@dataclass(frozen=True)
class Script:
    """A training script as its user runs it.

    Attributes:
        target: a file, or with ``is_module`` the name after ``python -m``.
        arguments: the script's arguments.
        is_module: whether it is run by ``-m``.
        folder: the working folder; None is the script's folder, or for a module the current one.
        python: the interpreter that has the script's packages.
        launcher: what starts it in several processes: ``-m torch.distributed.run`` and its options; empty for none.
    """

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    folder: Path | None = None
    python: str = field(default=sys.executable)
    launcher: tuple[str, ...] = ()

    @classmethod
    def by_torchrun(cls, module: str, arguments: Sequence[str], folder: Path | None, python: str) -> Script:
        """Build a script that torchrun starts.

        Args:
            module: torchrun's module name: one of `torchrun.MODULES`.
            arguments: what follows it: its options, the script, and the script's arguments.
            folder: the working folder; None is the script's folder.
            python: the interpreter that has the script's packages.

        Raises:
            UsageError: no script is named.
        """
        found = launched(module, arguments)
        return cls(found.script, found.arguments, False, folder, python, found.launcher)

    def working_folder(self) -> Path:
        """Where it runs."""
        if self.folder is not None:
            return self.folder.resolve()
        return Path.cwd() if self.is_module else Path(self.target).resolve().parent

    def command(self) -> list[str]:
        """The command line after ``python``, as typed in the working folder."""
        return [*self.launcher, *self.own_command()]

    def own_command(self) -> list[str]:
        """The command that is watched in each process."""
        if self.is_module:
            return ["-m", self.target, *self.arguments]
        return [os.path.relpath(Path(self.target).resolve(), self.working_folder()), *self.arguments]

    def check(self) -> None:
        """Check that the script can be run.

        Raises:
            UsageError: there is no such file or folder, or no such interpreter.
        """
        if not self.is_module and not Path(self.target).is_file():
            hint = "; pass a module with -m" if "." in self.target and "/" not in self.target else ""
            raise UsageError(f"there is no script {self.target}{hint}")
        if not self.working_folder().is_dir():
            raise UsageError(f"the working folder {self.working_folder()} does not exist")
        check_may_run(self.python)


def observe(
    script: Script,
    folder: Path,
    *,
    steps: int = 4,
    time_limit: float = 600.0,
    tell: Callable[[str], object] = lambda line: None,
    entry: Path = ENTRY,
    wishes: Sequence[str] = (),
    put: Callable[[Observation, Path, Path], object] | None = None,
) -> Observation:
    """Run a script for some steps and one evaluation, and write a description of it into a folder.

    Args:
        script: the user's script.
        folder: where ``observation.json`` goes; must not exist, or be empty.
        steps: how many updates of each optimizer to watch.
        time_limit: the most that it may take in all, in seconds.
        tell: called with one line of text whenever the script makes progress.
        entry: the program that watches it.
        wishes: options of that program.
        put: writes the result in place of `put_account`; called with the observation, the journal's folder, and the
            folder that becomes ``folder``.

    Raises:
        FolderExists: ``folder`` already exists and is not empty.
        ScriptFailed: the script itself failed; its output has the traceback.
        UsageError: it trains nothing that could be watched; the message says why, and what to do.
    """
    script.check()
    if steps < 1:
        raise UsageError(f"--watch is the number of updates to watch, 1 or more; got {steps}")
    check_free(folder)
    work = Path(tempfile.mkdtemp(prefix="port-script-"))
    try:
        log = work / "printed.log"
        how = _run(script, work, log, steps, time_limit, tell, (str(entry), *wishes))
        events = read_events(work / "events.jsonl")
        about_script = {
            "target": script.target,
            "is_module": script.is_module,
            "arguments": list(script.arguments),
            "launcher": list(script.launcher),
            "command": script.command(),
            "folder": str(script.working_folder()),
            "interpreter": script.python,
            "watched": steps,
            "stopped": how.stopped,
        }
        if how.code not in (0, None) and not events:
            last = _printed(log).strip().splitlines()[-1:]
            raise UsageError(
                f"the script could not be watched by {script.python}: {''.join(last)}. That Python needs torch and "
                "port's dependencies; select another with --torch-python PATH"
            )
        if events and events[-1].get("reason") == "fault":
            said = "".join(_printed(log).strip().splitlines()[-1:])
            raise NoPair(f"watching the script failed because of a bug in port: {said}; please report it")
        if how.code not in (0, None):
            raise ScriptFailed(
                _printed(log), how.code, " ".join(["python", *script.command()]), script.working_folder()
            )
        observation = Observation.of(events, about_script) if events else Observation(about_script)
        refuse(events, observation)
        _write(observation, work, folder, put or put_account)
        return observation
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check_free(folder: Path) -> None:
    """Check that a folder can be written.

    Raises:
        FolderExists: it already exists and is not empty.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FolderExists(f"{folder} already exists: choose another folder with -o, or remove it")


@dataclass
class _How:
    """How a watched script ended: its exit code, or why it was stopped."""

    code: int | None = None
    stopped: str | None = None


def _run(
    script: Script,
    work: Path,
    log: Path,
    steps: int,
    limit: float,
    tell: Callable[[str], object],
    entry: Sequence[str],
) -> _How:
    from port.training.process_tree import ProcessTree

    tree = ProcessTree()
    environment = {"PYTHONUNBUFFERED": "1", **os.environ}
    command = [script.python, *script.launcher, *entry, str(work), str(steps), *script.own_command()]
    journal = work / "events.jsonl"
    began = time.monotonic()
    progress = _Progress(steps, tell)
    try:
        tree.start(command, environment, log, folder=script.working_folder())
        while True:
            code = tree.exit_code()
            progress.read(journal)
            now = time.monotonic()
            if code is not None:
                return _How(code)
            if now - began > limit:
                return _How(stopped=f"it had run for {limit:g} s, its --time-limit")
            if progress.evaluation_is_overdue(now - began):
                return _How(stopped="it made no evaluation while port waited for one")
            time.sleep(POLL_SECONDS)
    except OSError as error:
        raise UsageError(f"the script cannot be started: {error}") from error
    finally:
        ProcessTree.end([tree])


class _Progress:
    """Reads the journal as it grows, and reports the script's progress."""

    def __init__(self, steps: int, tell: Callable[[str], object]) -> None:
        self._steps, self._tell = steps, tell
        self._read = 0
        self._updates = 0
        self._watched: float | None = None
        self._evaluated = False
        self._said = ""

    def read(self, journal: Path) -> None:
        """Read what was written since the last call."""
        if not journal.exists():
            return
        with journal.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.split(b"\n"):
            self._take(line)

    def evaluation_is_overdue(self, seconds: float) -> bool:
        """Whether all steps were seen but no evaluation came within ``seconds``."""
        if self._watched is None or self._evaluated:
            return False
        return seconds - self._watched > max(LEAST_PATIENCE, PATIENCE * self._watched)

    def _take(self, line: bytes) -> None:
        if b'"event": "update"' in line[:40]:
            self._updates += 1
            self._say(f"update {self._updates}")
        elif b'"event": "watched"' in line[:40]:
            self._watched = _seconds(line)
            self._say("saw the updates; waiting for an evaluation")
        elif b'"event": "end"' in line[:40]:
            self._evaluated = True
            if b'"reason": "fa' not in line:  # failed, or a fault: its message comes next
                self._say("finished watching the script")
        elif b'"event": "call"' in line[:40] and self._watched is not None and b'"grad": false' in line:
            self._evaluated = True
            self._say("evaluating")

    def _say(self, what: str) -> None:
        if what != self._said:
            self._said = what
            self._tell(what)


def _seconds(line: bytes) -> float:
    event: Event = json.loads(line)
    return float(event["seconds"])


def _printed(log: Path) -> str:
    return log.read_text("utf-8", errors="replace") if log.exists() else ""


def put_account(observation: Observation, work: Path, folder: Path) -> None:
    """Write the observation as data, beside it weights, inputs, the script's output and the files it saved."""
    write_json(folder / FILE, observation.as_data())
    for name in ("printed.log", "saved", "initial.safetensors", "inputs.safetensors"):
        if (work / name).exists():
            shutil.move(str(work / name), str(folder / name))


def _write(
    observation: Observation, work: Path, folder: Path, put: Callable[[Observation, Path, Path], object]
) -> None:
    """Write the folder atomically: build it next to its destination, then rename it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        put(observation, work, beside)
        if folder.exists():
            folder.rmdir()
        beside.chmod(0o755)
        os.replace(beside, folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
