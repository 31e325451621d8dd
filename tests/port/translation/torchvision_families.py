"""Families of torchvision's models: what is written for one member constructs the others, and is proved there.

    python -m tests.port.translation.torchvision_families [FAMILY …] [--lines FILE] [--seconds 3000] [--most 3]

One JSON line a family is appended to FILE; a family that has one is not run again. With ``--table`` what
FILE holds is written over the rows of the kept table, ``torchvision_families.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("torchvision_families.json")
ROOT = Path(__file__).parents[3]
Row = dict[str, Any]
LIMIT = 600.0
"""Seconds for each proof."""


def families() -> dict[str, list[Any]]:
    """The models of each family, in the order of the table of models: the smallest first."""
    from .torchvision_models import MODELS

    found = defaultdict(list)
    for model in MODELS.values():
        found[model.family].append(model)
    return dict(found)


def row_of(family: str, most: int) -> Row:
    """Translate the first of a family, and prove its source at the others.

    Args:
        family: its name.
        most: how many of the others are tried.
    """
    import port

    from .test_zoo import built

    warnings.simplefilter("ignore")
    first, *others = families()[family]
    row: Row = {"family": family, "member": first.name, "follow": {}, "not": {}, "left": []}
    began = time.perf_counter()
    with first.within():
        args, kwargs = first.inputs()
        made = port.translate(built(first), args, kwargs, construct=first.build, time_limit=LIMIT)
    assert made.proof is not None
    row |= {"agrees": made.proof.agrees, "settings": list(made.settings.lines)}
    row["seconds"] = {first.name: round(time.perf_counter() - began)}
    for other in others[:most]:
        began = time.perf_counter()
        try:
            with other.within():
                proof = made.proof_at(other.build, built(other), time_limit=LIMIT)
        except Exception as error:
            row["not"][other.name] = f"{type(error).__name__}: {error}"[:300]
        else:
            rows = {compared.what: float(f"{compared.difference:.1e}") for compared in proof.rows}
            row["follow" if proof.agrees else "not"][other.name] = rows if proof.agrees else str(proof)[:300]
        row["seconds"][other.name] = round(time.perf_counter() - began)
    row["left"] = [other.name for other in others[most:]]
    return row


def alone(family: str, seconds: float, most: int) -> Row:
    """`row_of` in a process of its own, which is ended when it takes too long."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--one", family, "--most", str(most)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"family": family, "error": f"more than {seconds:g} seconds"}
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return {"family": family, "error": f"exit {done.returncode}: {said[-1] if said else ''}"[:500]}
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def rows_in(lines: Path) -> dict[str, Row]:
    """The rows that a file of lines holds, by family."""
    rows = [json.loads(line) for line in lines.read_text().splitlines() if line] if lines.exists() else []
    return {row["family"]: row for row in rows}


def table() -> dict[str, Row]:
    """The kept table, by family."""
    return {row["family"]: row for row in json.loads(TABLE.read_text())} if TABLE.exists() else {}


def keep(rows: dict[str, Row]) -> None:
    """Write rows over those of the kept table, one a line, in the order of the models."""
    known = {**table(), **rows}
    lines = [json.dumps(known[family]) for family in families() if family in known]
    TABLE.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="all by default")
    parser.add_argument("--lines", type=Path, default=Path("families.jsonl"))
    parser.add_argument("--seconds", type=float, default=3000.0, help="for each family")
    parser.add_argument("--most", type=int, default=100, help="members beside the first that are tried")
    parser.add_argument("--table", action="store_true", help="write the kept table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(row_of(given.one, given.most)))
        return
    for family in given.families or families():
        if family not in rows_in(given.lines):
            row = alone(family, given.seconds, given.most)
            with given.lines.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                family,
                row.get("error") or f"{list(row['follow'])} follow, not {row['not']}",
                row.get("seconds"),
                flush=True,
            )
    if given.table:
        keep(rows_in(given.lines))


if __name__ == "__main__":
    main()
