"""The result of matching two models: the mapping, the table, and the proof."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from port.judging import Status
from port.mapping import Mapping
from port.mapping.file import write_whole
from port.matching.state import By
from port.parity import CheckReport


@dataclass(frozen=True)
class Candidate:
    """One possibility for an open row.

    Attributes:
        torch: torch's keys.
        flax: Flax's paths.
        rename: the renaming that would select it: a pattern for torch's keys and its replacement; "" if none can.
        how: the moves, if they are what is open.
    """

    torch: tuple[str, ...]
    flax: tuple[str, ...]
    rename: str = ""
    how: str = ""

    def __str__(self) -> str:
        return f"{', '.join(self.torch)} → {', '.join(self.flax)}" + (f" ({self.how})" if self.how else "")


@dataclass(frozen=True)
class Row:
    """One line of the table: tensors that correspond, and what decided it.

    Attributes:
        torch: torch's keys; for an open row, those that are left over.
        flax: Flax's paths.
        by: what decided it; "open" if nothing did.
        note: the moves, or why it is open.
        candidates: the possibilities of an open row.
    """

    torch: tuple[str, ...]
    flax: tuple[str, ...]
    by: By
    note: str = ""
    candidates: tuple[Candidate, ...] = ()

    def __str__(self) -> str:
        line = f"{', '.join(self.torch) or '–'} → {', '.join(self.flax) or '–'}  {self.by}"
        return line + (f": {self.note}" if self.note else "")


@dataclass(frozen=True)
class Match:
    """A proposed mapping between two models that were written separately; true if it is proved.

    A proved mapping does not mean that the models agree: they may still train differently; see `status`.

    Attributes:
        mapping: from torch's keys to Flax's paths, without what is open.
        rows: the table, in torch's order, open rows last.
        report: `port.check`'s report, with torch's weights converted; None if something is open.
        remarks: further remarks for the user.
        toml: the mapping as a file's text, with patterns for what is repeated.
    """

    mapping: Mapping
    rows: tuple[Row, ...]
    report: CheckReport | None
    remarks: tuple[str, ...]
    toml: str

    def __bool__(self) -> bool:
        return self.is_proved

    @property
    def is_proved(self) -> bool:
        """Whether everything is matched, and outputs and gradients agree with torch's weights converted.

        The running statistics after some steps do not depend on the mapping, and may differ.
        """
        report = self.report
        return report is not None and not report.unjudged and all(f.what == "buffers" for f in report.findings)

    @property
    def differs_in_training(self) -> bool:
        """Whether the mapping is proved, but the models update their buffers differently in training."""
        return self.is_proved and self.report is not None and not self.report.agree

    @property
    def differs_beside(self) -> bool:
        """Whether the models differ only where the mapping is not the cause: in training, in an input's gradient.

        Every parameter takes part in evaluation, where the outputs and the parameters' gradients agree.
        """
        report = self.report
        return (
            not self.is_proved
            and report is not None
            and not report.unjudged
            and not any(found.mode != "training" and found.what != "input gradient" for found in report.findings)
        )

    @property
    def status(self) -> Status:
        """The verdict on the two models, which may differ in training with a proved mapping.

        Agree: the mapping is proved and the models agree. Differ: they differ with it. Cannot be judged: something is
        open.
        """
        return Status.CANNOT_JUDGE if self.open or self.report is None else self.report.status

    @property
    def trains_otherwise(self) -> tuple[str, ...]:
        """If the mapping is proved but the models differ in training: the buffers that differ, and where to look."""
        if not self.differs_in_training or self.report is None:
            return ()
        return (*(str(finding) for finding in self.report.findings[:3]), *self.report.hints)

    @property
    def open(self) -> tuple[Row, ...]:
        """The rows that nothing decided."""
        return tuple(row for row in self.rows if row.by == "open")

    @property
    def advice(self) -> tuple[str, ...]:
        """What the user can pass to decide what is open."""
        renames = dict.fromkeys(
            f"--rename '{candidate.rename}'"
            for row in self.open
            for candidate in row.candidates[:1]
            if candidate.rename
        )
        found = list(renames)
        if any(not row.candidates or any(candidate.how for candidate in row.candidates) for row in self.open):
            found.append("a [[rule]] in a mapping file, with source, target and moves, passed with --mapping")
        return tuple(found)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if self.is_proved and self.report is not None:
            compared = ", ".join(f"{count} {kind}" for kind, count in self.report.compared.items() if count)
            proof = f"The mapping is proved in {self.report.precision}: {compared}."
            if not self.differs_in_training:
                return proof
            differ = len(self.report.findings)
            return f"{proof} But the models differ in training, in {differ} buffer{'' if differ == 1 else 's'}."
        if self.open:
            return f"Open: {len(self.open)} of {len(self.rows)} rows are undecided, so nothing is proved."
        if self.report is None:
            return "The mapping could not be judged."
        if self.differs_beside:
            return (
                "The mapping is right: all parameters take part in evaluation, where the models agree. They differ "
                f"elsewhere. {self.report.sentence}"
            )
        return f"A mapping is proposed, and the two models differ with it. {self.report.sentence}"

    def save(self, path: Path | str) -> None:
        """Write the mapping file atomically; `port.mapping.read_mapping` reads it back.

        Raises:
            BrokenWeights: the file cannot be written.
        """
        write_whole(Path(path), self.toml.encode())

    def __str__(self) -> str:
        lines = [self.sentence, *(f"  {row}" for row in self.rows)]
        for row in self.open:
            lines += [f"    could be {candidate}" for candidate in row.candidates]
        lines += [f"  to decide it: {line}" for line in self.advice]
        lines += [f"  note: {remark}" for remark in self.remarks]
        lines += [f"  in training they differ: {line}" for line in self.trains_otherwise]
        if self.report is not None and not self.is_proved:
            lines.append(str(self.report))
        return "\n".join(lines)


def renaming_to(torch: str, flax: str) -> str:
    """The renaming that turns a torch module's name into a Flax module's: ``PATTERN=NAME``."""
    return rf"^{re.escape(torch)}\b={flax}"
