"""Results of commands as data for programs; `result.schema.json` documents each field."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.judging import Compared, Status, worst
from port.judging.limits import PROOF_LIMIT, WEIGHTS_LIMIT
from port.records import Verdict
from port.records.json_numbers import to_json
from port.training import Outcome
from port.weights.conversion import Conversion

if TYPE_CHECKING:
    from port.matching import Match
    from port.parity import CheckReport
    from port.parity.compare.findings import Parting
    from port.parity.diagnose.causes import Cause
    from port.report.runs.run_folder import RunFolder
    from port.scripts.writing_process import WrittenUpdate
    from port.translation import Translation
    from port.translation.audit import Audit

Result = dict[str, Any]


def schema() -> Any:
    """Return the JSON schema of every result."""
    return json.loads((files("port.report") / "result.schema.json").read_text("utf-8"))


def printed(result: Result) -> str:
    """Return a result as ``--json`` prints it: one object, on several lines.

    If standard output cannot encode a character, all characters beyond ASCII are escaped.
    """
    text = json.dumps(to_json(result), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(to_json(result), indent=2, allow_nan=False)
    return text


def result_of_error(command: str, message: str, exit_code: int) -> Result:
    """Return the result of a command that failed with an error."""
    return _result(command, None, message, exit_code=exit_code)


def result_of_check(report: CheckReport) -> Result:
    """Return the result of a check: a row for each tensor that differs, then a summary row for each kind."""
    differ = [
        _row(f"{f.what}, {f.mode}" if f.mode else f.what, f.where, f.difference, f.limit, None, Status.DIFFER)
        for f in report.findings
    ]
    return _result(
        "check",
        report.status,
        report.sentence,
        rows=[*differ, *map(_row_of, report.rows)],
        first=_parted(report.partings),
        causes=[asdict(cause) for cause in report.causes],
        remarks=[*report.unjudged, *report.hints, *report.remarks],
    )


def result_of_match(found: Match, file: Path | None) -> Result:
    """Return the result of a match: a row for each row of the mapping, then the rows of its check."""
    rows = [
        _row(f"matched by {row.by}" if row.by != "open" else "open", f"{', '.join(row.torch)} → {', '.join(row.flax)}")
        for row in found.rows
    ]
    checked = result_of_check(found.report) if found.report is not None else None
    candidates = [
        f"open: {', '.join(row.torch)} could be {candidate}" for row in found.open for candidate in row.candidates
    ]
    return _result(
        "match",
        found.status,
        found.sentence,
        rows=[*rows, *(checked["rows"] if checked else ())],
        first=checked["first_divergence"] if checked else None,
        causes=checked["causes"] if checked else (),
        files=[] if file is None else [file],
        remarks=[
            *candidates,
            *(f"to decide it: {line}" for line in found.advice),
            *found.trains_otherwise,
            *found.remarks,
        ],
    )


def result_of_verdict(verdict: Verdict, causes: Sequence[Cause] = (), page: Path | None = None) -> Result:
    """Return the result of comparing two records, with the causes of the models' differences where they are known.

    Args:
        verdict: of the comparison.
        causes: of the models' differences.
        page: the page that was written, if one was.
    """
    return _result(
        "compare",
        verdict.status,
        verdict.sentence,
        rows=list(map(_row_of, verdict.rows)),
        first=_first_of(verdict),
        causes=[asdict(cause) for cause in causes],
        files=[] if page is None else [page],
        remarks=verdict.hints,
    )


def result_of_outcomes(outcomes: Sequence[Outcome], folder: Path) -> Result:
    """Return the result of a run of both trainers; each comparison's rows begin with its name."""
    status = worst(outcome.verdict.status for outcome in outcomes)
    rows = [_row_of(replace(row, what=f"{outcome.name}, {row.what}")) for outcome in outcomes for row in outcome.rows]
    first = next((found for outcome in outcomes if (found := _first_of(outcome.verdict)) is not None), None)
    return _result(
        "train",
        status,
        " ".join(outcome.verdict.sentence for outcome in outcomes),
        rows=rows,
        first=first,
        causes=[asdict(cause) for cause in dict.fromkeys(cause for outcome in outcomes for cause in outcome.causes)],
        files=sorted(path for path in folder.rglob("*") if path.is_file()),
        remarks=[hint for outcome in outcomes for hint in outcome.verdict.hints],
    )


def result_of_translation(translation: Translation, written: Iterable[Path]) -> Result:
    """Return the result of a translation and its proof; the exit code is 1 if something is left to write."""
    proof = translation.proof
    unwritten = [str(place) for place in translation.unwritten]
    if proof is None:
        sentence = "Not compared with the original."
        return _result("translate", None, sentence, exit_code=1, files=written, remarks=unwritten)
    rows = list(map(_row_of, proof.rows))
    why = proof.failed or proof.unjudged
    moved = translation.package.remarks if translation.package is not None else ()
    reasons = [row.unjudged for row in proof.rows if row.unjudged]
    untaken = [f"not translated: {line}" for line in translation.untaken]
    kept = [*translation.apart, *translation.settings.lines]
    return _result(
        "translate",
        proof.status,
        f"{str(proof).splitlines()[0]}{f': {why}' if why else ''}",
        exit_code=Status.DIFFER.exit_code if unwritten else None,
        rows=rows,
        first=_parted(proof.explanation.partings),
        causes=[asdict(cause) for cause in proof.explanation.causes],
        files=written,
        remarks=[*unwritten, *reasons, *proof.remarks, *kept, *untaken, *moved],
    )


def result_of_audit(audit: Audit, target: str) -> Result:
    """Return the result of an audit: a row for each layer and operator, those without a pair first."""
    rows = [
        _row(f"{row.kind} {row.name}", row.twin if row.is_known else row.why, count=row.count) for row in audit.rows
    ]
    unknown = [f"no pair: {row.name} ({', '.join(map(str, row.places))}): {row.why}" for row in audit.unknown]
    said = f"{len(unknown)} of {len(rows)} have no pair" if unknown else f"all of {len(rows)} have pairs"
    exit_code = 1 if unknown else 0
    return _result("translate", None, f"{target}: {said}", exit_code=exit_code, rows=rows, remarks=unknown)


def result_of_runs(runs: Sequence[RunFolder], page: Path | None) -> Result:
    """Return the result of several runs; rows begin with the names of the run and of the comparison."""
    rows = [
        _row_of(replace(row, what=f"{run.name}, {one.name}, {row.what}"))
        for run in runs
        for one in run.comparisons
        for row in one.rows
    ]
    sentence = " ".join(f"{run.name}: {one.verdict.sentence}" for run in runs for one in run.comparisons)
    hints = [f"{run.name}: {hint}" for run in runs for one in run.comparisons for hint in one.verdict.hints]
    status = worst(run.status for run in runs)
    return _result("report", status, sentence, rows=rows, files=[] if page is None else [page], remarks=hints)


def result_of_script(written: WrittenUpdate, folder: Path) -> Result:
    """Return the result of a translated script: a row for the losses, and one for the final weights."""
    command = " ".join(written.observation.script["command"])
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if written.status is None:
        sentence = f"{command}: its update is not written in JAX yet"
        return _result("script", None, sentence, exit_code=1, files=files, remarks=[*written.reasons, *written.remarks])
    count, status = len(written.losses), written.status
    rows = [
        _row("losses of the updates", "", written.loss, PROOF_LIMIT, count, status),
        _row("weights after the last one", "", written.weights, WEIGHTS_LIMIT, None, status),
    ]
    trainer = [f"no train.py: {written.no_trainer}"] if written.no_trainer else []
    sentence = f"{command}: its update in JAX is {folder / 'train_step.py'}; {status}, compared {written.draws}"
    if written.why:
        sentence += f": {written.why}"
    return _result("script", status, sentence, rows=rows, files=files, remarks=[*trainer, *written.remarks])


def result_of_conversion(done: Conversion) -> Result:
    """Return the result of a conversion, which compares nothing: a row for each mapping entry that was moved."""
    rows = [
        _row("moved", f"{', '.join(entry.sources)} → {', '.join(entry.targets)}", count=len(entry.sources))
        for entry in done.moved
    ]
    count = sum(len(entry.sources) for entry in done.moved)
    left = [f"left out: {name}: {why}" for name, why in done.left_out.items()]
    missing = [f"missing: {name}: {why}" for name, why in done.missing.items()]
    nan = [f"NaN, kept: {name}: {count} of its elements" for name, count in done.nan.items()]
    where = f", written to {done.out}" if done.out is not None else "; nothing was written"
    remarks = [*left, *missing, *nan, *done.remarks]
    return _result(
        "convert", None, f"{count} tensors fit{where}", exit_code=0, rows=rows, files=done.files, remarks=remarks
    )


def _result(
    command: str,
    status: Status | None,
    sentence: str,
    *,
    exit_code: int | None = None,
    rows: Sequence[Result] = (),
    first: Result | None = None,
    causes: Sequence[Result] = (),
    files: Iterable[Path] = (),
    remarks: Sequence[str] = (),
) -> Result:
    if exit_code is None:
        assert status is not None
        exit_code = status.exit_code
    return {
        "command": command,
        "status": None if status is None else str(status),
        "exit_code": exit_code,
        "sentence": sentence,
        "rows": list(rows),
        "first_divergence": first,
        "causes": list(causes),
        "files": [str(path) for path in files],
        "remarks": list(remarks),
    }


def _parted(partings: Sequence[Parting]) -> Result | None:
    """Return where two modules first diverge."""
    if not partings:
        return None
    part = partings[0]
    return _divergence(
        part.why, direction=part.direction, mode=part.mode, layer=part.layer or None, path=part.path or None
    )


def _row(
    what: str,
    where: str = "",
    difference: float | None = None,
    limit: float | None = None,
    count: int | None = None,
    status: Status | None = None,
) -> Result:
    found = {"difference": difference, "limit": limit}
    numbers = {name: None if value is None else float(value) for name, value in found.items()}
    return {"what": what, "where": where, **numbers, "count": count, "status": None if status is None else str(status)}


def _row_of(row: Compared) -> Result:
    """Return the row of a comparison; its status is null if nothing judges it."""
    is_limited = not math.isnan(row.limit)
    status = row.status if is_limited or row.unjudged else None
    limit = row.limit if is_limited else None
    return _row(row.what, row.where, row.difference, limit, row.count, status)


def _divergence(why: str, **known: Any) -> Result:
    return {"direction": None, "mode": None, "layer": None, "path": None, "step": None, **known, "why": why}


def _first_of(verdict: Verdict) -> Result | None:
    return None if verdict.first is None else _divergence(verdict.first.why, step=verdict.first.step)
