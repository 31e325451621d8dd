"""What the proof says of right pairs: one JSON line a pair.

    python -m tests.port.translation.false_alarms.run [--first 0] [--last 240] [--zoo] [--modules] [--lines FILE]

A pair that has a line in FILE is not translated again. The run ends with 1 where a pair was called different.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from .word import word_of

Line = dict[str, Any]


@dataclass(frozen=True)
class Right:
    """A module whose translation is right.

    Attributes:
        name: its own among all.
        make: makes the module, its arguments, and those by name.
    """

    name: str
    make: Callable[[], tuple[nn.Module, Any, dict[str, Any]]]


def generated(number: int) -> Right:
    """The generator's, by number."""
    from .generator import example

    chosen = example(number)
    return Right(chosen.name, lambda: (chosen.build(), *chosen.inputs()))


def of_the_zoo() -> Iterator[Right]:
    """The zoo's examples that can be translated."""
    from ..test_zoo import TRANSLATED, built

    for one in TRANSLATED:
        yield Right(f"zoo: {one.name}", lambda one=one: (built(one), *one.inputs()))


def of_the_database(most: int = 2) -> Iterator[Right]:
    """torch's module database: up to so many ways of building and calling each entry."""
    from ..test_module_database import ENTRIES, samples_of

    def make(name: str, number: int) -> tuple[nn.Module, Any, dict[str, Any]]:
        return samples_of(name, most)[number]

    for name in sorted(ENTRIES):
        for number in range(len(samples_of(name, most))):
            yield Right(f"modules: {name} {number}", partial(make, name, number))


def line_of(right: Right) -> Line:
    """Translate a pair and write down what the proof says, and the row that differs the most."""
    import port

    began = time.perf_counter()
    module, args, kwargs = right.make()
    line: Line = {"name": right.name}
    try:
        translation = port.translate(module, args, kwargs)
    except Exception as error:
        return line | {"word": "not translated", "error": f"{type(error).__name__}: {error}"[:500]}
    proof = translation.proof
    line |= {"word": word_of(proof), "unwritten": [str(item) for item in translation.unwritten]}
    if proof is not None:
        apart = [row for row in proof.rows if not row.agrees]
        worst = max(proof.rows, key=lambda row: row.difference / (row.limit or 1), default=None)
        line |= {
            "precision": proof.precision,
            "failed": proof.failed,
            "remarks": list(proof.remarks),
            "apart": [str(row) for row in apart],
            "worst": worst
            and {"what": worst.what, "where": worst.where, "difference": float(f"{worst.difference:.2e}")},
        }
    return line | {"seconds": round(time.perf_counter() - began, 1)}


def written(lines: Path) -> dict[str, Line]:
    """The lines of a file, by name."""
    if not lines.exists():
        return {}
    found = [json.loads(text) for text in lines.read_text().splitlines() if text]
    return {line["name"]: line for line in found}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=0)
    parser.add_argument("--zoo", action="store_true")
    parser.add_argument("--modules", action="store_true")
    parser.add_argument("--lines", type=Path, default=Path("false_alarms.jsonl"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # torch's, about what its own samples ask for
    rights = [generated(number) for number in range(given.first, given.last)]
    rights += [*of_the_zoo()] if given.zoo else []
    rights += [*of_the_database()] if given.modules else []
    known = written(given.lines)
    for right in rights:
        if right.name in known:
            continue
        line = known[right.name] = line_of(right)
        with given.lines.open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        print(f"{line['word']:8} {right.name} {line.get('apart') or line.get('error') or ''}", flush=True)
    words = [known[right.name]["word"] for right in rights]
    print({word: words.count(word) for word in sorted(set(words))})
    return 1 if "differ" in words else 0


if __name__ == "__main__":
    sys.exit(main())
