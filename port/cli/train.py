"""`port train`: runs both trainers from one command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from tyro.conf import arg

from port.cli.causes_of_run import with_causes
from port.cli.parsing import parsed
from port.data import dataset_info, load_dataset
from port.errors import BrokenRecord, TrainerDied, UsageError
from port.extras import EXTRAS, require
from port.report import plot_losses, print_outcomes
from port.report.results import printed, result_of_outcomes
from port.scripts.watched_original import is_written
from port.training import (
    Outcome,
    Pairing,
    Trainer,
    check_has_port,
    make_run_folder,
    options_of_run,
    view,
)
from port.training.plan import CONTROLS
from side_by_side.config import Config

if TYPE_CHECKING:
    from port.scripts.judged_pair import JudgedPair


@dataclass(frozen=True)
class Arguments:
    """Train the same model with PyTorch and with JAX, and tell whether the two runs are the same, step by step.

    Exits 0 if they are, 1 if they are not, 2 on bad usage, 3 if a trainer died, 4 if it cannot be judged.
    """

    config: Annotated[Config, arg(name="")] = field(default_factory=Config)
    torch_script: Path | None = None
    """your own PyTorch script, instead of ours; it records with port.Recorder, or is recorded unchanged next to a
    JAX script that port script wrote for it"""
    jax_script: Path | None = None
    """your own JAX script, or the train.py that port script wrote"""
    torch_python: Annotated[str, arg(metavar="PATH")] = sys.executable
    """the Python that has your PyTorch script's packages"""
    jax_python: Annotated[str, arg(metavar="PATH")] = sys.executable
    """the Python that has your JAX script's packages"""
    overwrite: bool = False
    """empty an existing run folder"""
    plain: bool = False
    """plain lines instead of the live view"""
    open: bool = False
    """open the run's page, run.html in its folder, in a browser when it is written"""
    json: bool = False
    """print the result as JSON, for programs; progress goes to standard error"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    ours, for_scripts = _split_at_dashes(list(arguments))
    options = parsed(Arguments, "train", ours)
    _require_extras(options)
    # Here, not above: --help needs none of the extras.
    from port.training.processes import terminate_on_signal
    from port.training.run import status_of, train, write_verdict

    run_config: dict[str, Any]
    console = Console(stderr=options.json)
    pair = None
    if options.jax_script is not None and options.torch_script is not None and is_written(options.jax_script):
        pair = _judged_pair(options, tuple(for_scripts) if "--" in arguments else None)
        pairings, name = [], f"{options.torch_script.stem}-script"
        run_config = {
            "scripts": [options.torch_script, options.jax_script],
            "arguments": for_scripts,
            "updates": pair.updates,
        }
        pair.pairings(Path(), options.config.precisions, options.config.time_limit)  # rejected before a folder is made
    elif options.torch_script is not None or options.jax_script is not None:
        pairings, name = _scripts(options, for_scripts), "scripts"
        run_config = {"scripts": [options.torch_script, options.jax_script], "arguments": for_scripts}
    else:
        if for_scripts:
            raise UsageError("arguments after -- are for your own scripts: pass --torch-script and --jax-script")
        if options.config.resume:
            if options.overwrite:
                raise UsageError("--resume continues the run that --overwrite would remove: pass only one of them")
            options = replace(options, config=_begun(options.config))
        _fetch_data(options.config)
        own = (options.config.torch_model or options.config.model).rpartition(":")[2]
        name = f"{options.config.dataset}-{own}-{options.config.optimizer}"
        run_config = {**asdict(options.config), "resume": False}
        pairings = []  # planned below, once the folder is known
    resume = options.config.resume
    if resume and options.config.out is not None:
        folder = options.config.out
    else:
        folder = make_run_folder(options.config.out, name=name, overwrite=options.overwrite)
    if pair is not None:
        pairings = pair.pairings(folder, options.config.precisions, options.config.time_limit)
    pairings = pairings or _ours(replace(options.config, out=folder.resolve()))
    go_on = f"; resume with: port train --out {folder} --resume" if options.config.checkpoint_every else ""
    try:
        with terminate_on_signal(), view(console, plain=options.plain) as watch:
            outcomes = train(pairings, folder, config=run_config, resume=resume, watch=watch)
    except KeyboardInterrupt as error:
        _show_remains(pairings, folder, error, console, options)
        print(
            f"port: interrupted; both trainers have been ended, the records so far are in {folder}{go_on}",
            file=sys.stderr,
        )
        return 130
    except BrokenRecord as error:
        _show_remains(pairings, folder, error, console, options)
        raise
    except TrainerDied as error:
        _show_remains(pairings, folder, error, console, options)
        # What was rejected before is rejected again.
        advice = "" if error.exit_code == UsageError.exit_code else go_on.replace("; ", "\n")
        raise TrainerDied(f"{error}{advice}", code=error.exit_code) from error
    if options.torch_script is None:
        outcomes = with_causes(outcomes, options.config, folder)
        write_verdict(outcomes, folder)
    _show(outcomes, folder, console, options)
    for remark in pair.remarks(outcomes) if pair is not None else ():
        console.print(f"[yellow]note[/]  {remark}", soft_wrap=True)
    if options.json:
        print(printed(result_of_outcomes(outcomes, folder)))
    return status_of(outcomes).exit_code


def _require_extras(options: Arguments) -> None:
    """Before anything is run: a run's page and plot are made at its end, and must not fail there.

    Scripts have their own packages, and maybe interpreters of their own; to run them takes psutil alone.
    """
    page = ("matplotlib", "jinja2", "plotly")
    if options.torch_script is None and options.jax_script is None:
        require("port train", torch=("torch",), train=EXTRAS["train"], report=page)
    require("port train", train=("psutil",), report=page)


def _split_at_dashes(arguments: list[str]) -> tuple[list[str], list[str]]:
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:place], arguments[place + 1 :]


def _begun(config: Config) -> Config:
    """Read the config of the run to resume; raises `UsageError` if other options were passed."""
    assert config.out is not None
    recorded = options_of_run(config.out)
    strange = sorted(recorded.keys() - asdict(config).keys())
    if strange:
        raise UsageError(
            f"{config.out / 'config.json'} has {', '.join(strange)}, which is not an option here: the run is from "
            "another version of port"
        )
    now = {"out", "resume", "time_limit", "download"}  # these do not change the result
    default = Config()
    begun: dict[str, Any] = {}
    for name, value in asdict(config).items():
        before = recorded.get(name, value)
        before = Path(str(before)) if isinstance(value, Path) else before
        if name not in now and value not in (before, getattr(default, name)):
            raise UsageError(
                f"the run in {config.out} was started with {name.replace('_', '-')} {before}, not {value}: it resumes "
                "with its own options; pass --out and --resume alone"
            )
        begun[name] = value if name in now and value != getattr(default, name) else before
    try:
        return Config(**{**begun, "out": config.out, "resume": True})
    except TypeError as error:
        raise UsageError(f"{config.out / 'config.json'} was changed, and cannot be resumed: {error}") from error


def _fetch_data(config: Config) -> None:
    """Check that the data exists before two processes look for it, and download it once if requested."""
    if dataset_info(config.dataset).torchvision_name is not None:
        for split in (True, False):
            load_dataset(config.dataset, config.data_root, train=split, download=config.download)


def _ours(config: Config) -> list[Pairing]:
    pairings = []
    for precision in config.precisions:
        flags = replace(config, precision=precision, download=False, data_root=config.data_root.resolve()).flags()
        is_proof = precision == "float64"
        controls = 0 if is_proof else CONTROLS
        torch, jax = _torch_trainer(config, flags), _jax_trainer(config, precision, flags)
        pairings.append(
            Pairing(precision, torch, jax, controls=controls, timed=not is_proof, time_limit=config.time_limit)
        )
    return pairings


# -P, and a variable for what a launcher starts: a folder named jax or torch in the user's current directory must not
# be imported.
PYTHON = (sys.executable, "-P", "-m")
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


def _torch_trainer(config: Config, flags: list[str]) -> Trainer:
    if config.replicas == 1:
        return Trainer((*PYTHON, "side_by_side.pytorch.train", *flags))
    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(config.replicas))
    threads = str(max(1, (os.cpu_count() or 1) // config.replicas))
    environment = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads), **SAFE_PATH}
    return Trainer((*PYTHON, *torchrun, "-m", "side_by_side.pytorch.train", *flags), environment)


def _jax_trainer(config: Config, precision: str, flags: list[str]) -> Trainer:
    # On the CPU, JAX must not open a GPU that it will not use.
    environment = {"JAX_PLATFORMS": "cpu"} if config.device_for(precision) == "cpu" else {}
    trainer = (*PYTHON, "side_by_side.jax.train", *flags)
    if config.processes == 1:
        return Trainer(trainer, environment)
    launcher = ("port.training.launch", "--processes", str(config.processes), "--")
    return Trainer((*PYTHON, *launcher, *trainer), {**environment, **SAFE_PATH})


def _judged_pair(options: Arguments, for_scripts: tuple[str, ...] | None) -> JudgedPair:
    """A script and the trainer that port script wrote for it."""
    require("port train beside a written trainer", torch=("torch",))
    from port.scripts.judged_pair import UPDATES, JudgedPair

    config = options.config
    taken = Config(out=config.out, steps=config.steps, precision=config.precision, time_limit=config.time_limit)
    if config != taken:
        raise UsageError(
            "next to a trainer that port script wrote, port train takes --steps, --precision, --time-limit and --out; "
            "arguments for both scripts come after --"
        )
    assert options.torch_script is not None and options.jax_script is not None
    steps = config.steps or UPDATES
    precision_is_set = config.precision != Config().precision
    pythons = options.torch_python, options.jax_python
    return JudgedPair(options.torch_script, options.jax_script, for_scripts, steps, precision_is_set, *pythons)


def _scripts(options: Arguments, for_scripts: list[str]) -> list[Pairing]:
    if options.torch_script is None or options.jax_script is None:
        raise UsageError("--torch-script and --jax-script belong together: pass both")
    for script in (options.torch_script, options.jax_script):
        if not script.is_file():
            update = script.parent / "train_step.py"
            hint = f"; its README.md says why port script wrote only {update}" if update.is_file() else ""
            raise UsageError(f"there is no script {script}{hint}")
    if options.config != Config(out=options.config.out):
        raise UsageError(
            "options of our trainers are not passed to your own scripts; arguments for both come after --, as in "
            f"port train --torch-script {options.torch_script} --jax-script {options.jax_script} -- --steps 100"
        )
    for python in (options.torch_python, options.jax_python):
        check_has_port(python)
    torch, jax = (
        Trainer((python, str(script), *for_scripts))
        for python, script in ((options.torch_python, options.torch_script), (options.jax_python, options.jax_script))
    )
    return [Pairing("scripts", torch, jax, controls=None)]


def _show(outcomes: list[Outcome], folder: Path, console: Console, options: Arguments) -> None:
    from port.report.page import open_page, write_page_of_folder

    plot_losses(outcomes, folder / "losses.png")
    print_outcomes(outcomes, console)
    page = write_page_of_folder(outcomes, folder)
    console.print(f"\n[dim]see[/] {page}[dim]; everything else is in the same folder[/]", soft_wrap=True)
    if options.open:
        open_page(page, console)


def _show_remains(
    pairings: list[Pairing], folder: Path, error: BaseException, console: Console, options: Arguments
) -> None:
    from port.report.page import open_page, write_page_of_remains

    page = write_page_of_remains(pairings, folder, error)
    if page is not None:
        console.print(f"[dim]what there is of the run is shown by[/] {page}", soft_wrap=True)
        if options.open:
            open_page(page, console)
