"""What a trainer writes down, and comparing two of them: the verdict."""

from port.records.comparison import compare
from port.records.read import Line, Record, read_record
from port.records.recorder import Recorder
from port.records.speed import first_step_seconds, steps_per_second
from port.records.verdict import Differences, Finding, Status, Verdict

__all__ = [
    "Differences",
    "Finding",
    "Line",
    "Record",
    "Recorder",
    "Status",
    "Verdict",
    "compare",
    "first_step_seconds",
    "read_record",
    "steps_per_second",
]
