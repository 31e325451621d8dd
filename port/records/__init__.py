"""The records that trainers write, and the comparison of two records: the verdict."""

from port.judging import Status
from port.records.comparison import compare
from port.records.heartbeat import Heartbeat
from port.records.layers import layer_names
from port.records.read import Record, RecordLine, read_record
from port.records.recorder import Recorder, record_path
from port.records.resuming import what_ran
from port.records.speed import first_step_seconds, steps_per_second
from port.records.unrecorded import Unrecorded
from port.records.verdict import Differences, RecordFinding, Verdict

__all__ = [
    "Differences",
    "Heartbeat",
    "Record",
    "RecordFinding",
    "RecordLine",
    "Recorder",
    "Status",
    "Unrecorded",
    "Verdict",
    "compare",
    "first_step_seconds",
    "layer_names",
    "read_record",
    "record_path",
    "steps_per_second",
    "what_ran",
]
