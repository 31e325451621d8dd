"""Architectures of ``transformers``: what is written at two layers of 32 is constructed at three of 48, and proved.

    python -m tests.port.translation.transformers_table [NAME …] [--lines FILE] [--seconds 3000] [--table]

One JSON line an architecture is appended to FILE; one that has a line is not run again. With ``--table`` what FILE
holds is written over the rows of the kept table, ``transformers_table.json``.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

from .kept_table import KeptTable, Row

TABLE = KeptTable(Path(__file__).with_suffix(".json"), "tests.port.translation.transformers_table")
LIMIT = 600.0
"""Seconds for each proof."""


def row_of(name: str) -> Row:
    """Translate an architecture at its small size, and prove its source at the larger one.

    Args:
        name: of the architecture's class.
    """
    import port

    from .transformers_models import NAMED

    warnings.simplefilter("ignore")
    architecture = NAMED[name]
    row: Row = {"name": name, "small": architecture.small, "larger": architecture.larger}
    began = time.perf_counter()
    made = port.translate(architecture.build(), cases=architecture.inputs(), construct=architecture.build)
    assert made.proof is not None
    row |= {"calls": 1 + len(made.others), "agrees": made.proof.agrees, "rows": _rows(made.proof)}
    row |= {"lines": len(made.source.splitlines()), "settings": list(made.settings.lines)}
    row["seconds"] = [round(time.perf_counter() - began)]
    if not made.proof.agrees:
        row["why"] = str(made.proof)[:500]
    began = time.perf_counter()
    try:
        proof = made.proof_at(architecture.build_larger, time_limit=LIMIT)
    except Exception as error:
        return row | {"follows": False, "why": f"{type(error).__name__}: {error}"[:500]}
    row |= {"follows": proof.agrees, "there": _rows(proof)}
    row["seconds"].append(round(time.perf_counter() - began))
    return row if proof.agrees else row | {"why": str(proof)[:500]}


def _rows(proof: Any) -> dict[str, float]:
    """What was compared, and how far it lies apart."""
    return {compared.what: float(f"{compared.difference:.1e}") for compared in proof.rows}


def is_whole(row: Row) -> bool:
    """Whether all that is asked was seen: both sizes, both modes, gradients, each call, and other lengths."""
    if not (row.get("agrees") and row.get("follows")):
        return False
    wanted = [f"{what} in {mode}" for what in ("outputs", "gradients") for mode in ("evaluation", "training")]
    for rows in (row["rows"], row["there"]):
        for call in range(1, 1 + row["calls"]):
            of_call = f" in example call {call}" if call > 1 else ""
            if not all(f"{what}{of_call}" in rows for what in wanted):
                return False
            if not any(" at " in what and what.endswith(of_call) for what in rows):
                return False
    return True


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="all by default")
    parser.add_argument("--lines", type=Path, default=Path("transformers.jsonl"))
    parser.add_argument("--seconds", type=float, default=3000.0, help="for each architecture")
    parser.add_argument("--table", action="store_true", help="write the kept table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(row_of(given.one)))
        return
    from .transformers_models import NAMED

    for name in given.names or NAMED:
        if name not in TABLE.rows_in(given.lines):
            row = TABLE.alone(name, given.seconds)
            with given.lines.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(name, "follows" if is_whole(row) else row.get("why"), row.get("seconds"), flush=True)
    if given.table:
        TABLE.keep(TABLE.rows_in(given.lines), NAMED)


if __name__ == "__main__":
    main()
