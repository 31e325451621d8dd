"""torch's own database of operators through the translator, each with all its samples: what agrees, and why not.

    python -m tests.port.translation.operators_run [NAME …] [--lines FILE] [--seconds 200] [--table]

One JSON line a variant of an operator is appended to FILE; one that has a line is not run again; no further samples of
it are begun after so many seconds. ``--table`` then writes what FILE holds over the rows of the kept table,
``operators_table.json``. On two cores all of it takes about two hours.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from .sampled import Outcome, outcome, samples_of

TABLE = Path(__file__).with_name("operators_table.json")
TOGETHER = 16  # samples that one module has
TRIED = 6  # where all of so many are refused, the others are not tried
Row = dict[str, Any]


def row_of(info: Any, seconds: float) -> Row:
    """What came of one variant of an operator."""
    began = time.perf_counter()
    samples = samples_of(info, 10**9)
    found, begun = Outcome(), 0
    tried = [outcome(info.op, [sample]) for sample in samples[:: max(1, len(samples) // TRIED)][:TRIED]]
    if len(samples) > 2 * TRIED and all(each.refused for each in tried):
        found, begun = Outcome(refused=tried[0].refused * len(samples)), len(samples)
    while begun < len(samples) and time.perf_counter() - began < seconds:
        found += outcome(info.op, samples[begun : begun + TOGETHER])
        begun = min(begun + TOGETHER, len(samples))
    return {
        "name": info.name,
        "variant": info.variant_test_name,
        "samples": len(samples),
        "run": begun,
        "agree": found.agree,
        "elsewhere": found.elsewhere,
        "unjudged": dict(Counter(map(in_short, found.unjudged))),
        "refused": dict(Counter(map(in_short, found.refused))),
        "wrong": dict(Counter(map(in_short, found.wrong))),
    }


def in_short(why: str) -> str:
    """A reason without what is of one sample alone: its place, its arguments, the source."""
    lines = [line.strip() for line in why.splitlines() if "float64: both sides" not in line]
    text = next((line for line in lines if "≤" not in line), lines[0])
    text = re.sub(r"^.*?is data-dependent:.*", "data-dependent", text)
    text = re.sub(r"^/.*?`: ", "", text)
    text = re.sub(r" (with these arguments|does not run in|\().*", "", text)
    return text[:100]


def table() -> dict[str, Row]:
    """The kept rows, by the operator's name and its variant's."""
    rows = json.loads(TABLE.read_text()) if TABLE.exists() else []
    return {f"{row['name']} {row['variant']}".strip(): row for row in rows}


def keep(rows: dict[str, Row]) -> None:
    """Write rows over those of the kept table, one a line."""
    known = table() | rows
    TABLE.write_text(
        "[\n" + ",\n".join(json.dumps(known[name], ensure_ascii=False) for name in sorted(known)) + "\n]\n"
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lines", type=Path, default=Path("operators.jsonl"))
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    import jax
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")  # torch warns of its own samples
    jax.config.update("jax_disable_most_optimizations", True)  # far more is compiled than computed
    rows: dict[str, Row] = {}
    if given.lines.exists():
        for row in map(json.loads, given.lines.read_text().splitlines()):
            rows[f"{row['name']} {row['variant']}".strip()] = row
    for info in op_db:
        name = f"{info.name} {info.variant_test_name}".strip()
        # Those of the jiterator want a GPU.
        if name in rows or info.name.startswith("jiterator") or (given.names and info.name not in given.names):
            continue
        rows[name] = row_of(info, given.seconds)
        with given.lines.open("a") as file:
            file.write(json.dumps(rows[name]) + "\n")
        print(name, f"{rows[name]['agree']} of {rows[name]['samples']}", flush=True)
        jax.clear_caches()
    if given.table:
        keep(rows)


if __name__ == "__main__":
    main()
