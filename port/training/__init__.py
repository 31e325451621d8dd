"""Starts both trainers, watches them, ends them, and collects their records."""

from port.training.broken_off import Remains, remains
from port.training.folder import make_run_folder, options_of_run
from port.training.interpreters import check_has_packages, check_has_port, check_may_run
from port.training.jobs import Job
from port.training.judgement import Outcome, judge
from port.training.live import view
from port.training.plan import Pairing, Trainer
from port.training.processes import terminate_on_signal
from port.training.run import status_of, train, write_verdict

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
