"""Starts both trainers, watches them, ends them, and collects their records."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from port.extras import naming_extras

if TYPE_CHECKING:
    from port.training.broken_off import Remains, remains
    from port.training.folder import make_run_folder, options_of_run
    from port.training.interpreters import check_has_packages, check_has_port, check_may_run
    from port.training.jobs import Job
    from port.training.judgement import Outcome, judge
    from port.training.live import view
    from port.training.plan import Pairing, Trainer
    from port.training.processes import terminate_on_signal
    from port.training.run import status_of, train, write_verdict

# Outcomes alone, which port compare reports, need no psutil; running trainers does.
_HOMES = {
    "Job": "port.training.jobs",
    "Outcome": "port.training.judgement",
    "Pairing": "port.training.plan",
    "Remains": "port.training.broken_off",
    "Trainer": "port.training.plan",
    "check_has_packages": "port.training.interpreters",
    "check_has_port": "port.training.interpreters",
    "check_may_run": "port.training.interpreters",
    "judge": "port.training.judgement",
    "make_run_folder": "port.training.folder",
    "options_of_run": "port.training.folder",
    "remains": "port.training.broken_off",
    "status_of": "port.training.run",
    "terminate_on_signal": "port.training.processes",
    "train": "port.training.run",
    "view": "port.training.live",
    "write_verdict": "port.training.run",
}

__all__ = [
    "Job",
    "Outcome",
    "Pairing",
    "Remains",
    "Trainer",
    "check_has_packages",
    "check_has_port",
    "check_may_run",
    "judge",
    "make_run_folder",
    "options_of_run",
    "remains",
    "status_of",
    "terminate_on_signal",
    "train",
    "view",
    "write_verdict",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        with naming_extras(f"port.training.{name}"):
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'port.training' has no attribute {name!r}")
