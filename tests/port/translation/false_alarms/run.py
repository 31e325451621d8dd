"""What the proof says of right pairs, all of one list: one JSON line a pair, and how many end in which word.

    python -m tests.port.translation.false_alarms.run [SOURCE …] [--first 0] [--last 240] [--static] [--lines FILE]
                                                      [--table]

The sources are *generated* (modules around what is zero in exact arithmetic, by number), *zoo*, and *modules* (torch's
module database); without one, all of them. ``--static`` compares at the example's lengths alone, in a part of the time.
A pair that has a line in FILE is not translated again. ``--table`` then writes what FILE holds over the rows of the
kept table, ``table.json``. The run ends with 1 where a pair was called different, or could not be translated for
another reason than a refusal.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from port.errors import PortError

from .generator import COUNT, example
from .word import word_of

TABLE = Path(__file__).with_name("table.json")
REFUSED = "refused"
"""The word for what is not translated, by a sentence that says why."""
RAISED = "raised"
"""The word for what is not translated, by any other error: a defect, as is a difference."""
TOGETHER = 25  # pairs, after which what JAX has compiled is let go
Line = dict[str, Any]


@dataclass(frozen=True)
class Right:
    """A module whose translation is right.

    Attributes:
        name: its own among all.
        source: where it is from.
        make: makes the module, its arguments, and those by name.
    """

    name: str
    source: str
    make: Callable[[], tuple[nn.Module, Any, dict[str, Any]]]


def generated(number: int) -> Right:
    """The generator's, by number."""
    chosen = example(number)
    return Right(chosen.name, "generated", lambda: (chosen.build(), *chosen.inputs()))


def of_the_zoo() -> Iterator[Right]:
    """The zoo's examples that can be translated."""
    from ..test_zoo import TRANSLATED, built

    for one in TRANSLATED:
        yield Right(f"zoo: {one.name}", "zoo", lambda one=one: (built(one), *one.inputs()))


def of_the_database() -> Iterator[Right]:
    """torch's module database: one way of building and calling each entry."""
    from ..test_module_database import ENTRIES, samples_of

    def make(name: str) -> tuple[nn.Module, Any, dict[str, Any]]:
        return samples_of(name, 1)[0]

    for name in sorted(ENTRIES):
        yield Right(f"modules: {name}", "modules", partial(make, name))


SOURCES: dict[str, Callable[[range], Iterator[Right]]] = {
    "generated": lambda numbers: map(generated, numbers),
    "zoo": lambda numbers: of_the_zoo(),
    "modules": lambda numbers: of_the_database(),
}


def every(sources: list[str], numbers: range = range(COUNT)) -> list[Right]:
    """The pairs of these sources.

    Args:
        sources: their names; if empty, all.
        numbers: of those that the generator makes.
    """
    return [right for source in sources or SOURCES for right in SOURCES[source](numbers)]


def line_of(right: Right, *, static: bool = False) -> Line:
    """Translate a pair and write down what the proof says, why, and the tensor that differs the most.

    Args:
        right: the pair.
        static: compare at the example's lengths alone.
    """
    import port

    began = time.perf_counter()
    line: Line = {"name": right.name, "source": right.source, "static": static}
    try:
        module, args, kwargs = right.make()
        translation = port.translate(module, args, kwargs, static=static)
    except Exception as error:
        word = REFUSED if isinstance(error, PortError) else RAISED
        why = f"{type(error).__name__}: {error}"[:500]
        return line | {"word": word, "why": why, "seconds": round(time.perf_counter() - began, 1)}
    proof = translation.proof
    line |= {"word": word_of(proof), "why": ""}
    if translation.unwritten:
        line |= {"word": REFUSED, "why": "; ".join(f"{item.what}: {item.why}" for item in translation.unwritten)}
    if proof is not None:
        apart = [str(row) for row in proof.rows if not row.agrees]
        worst = max(proof.rows, key=lambda row: row.difference / (row.limit or 1), default=None)
        line |= {
            "why": line["why"] or "; ".join(filter(None, [proof.failed, proof.unjudged, *apart])),
            "precision": proof.precision,
            "rounded": sum(row.rounded for row in proof.rows),
            "worst": worst and [worst.what, worst.where, float(f"{worst.difference:.1e}")],
            "remarks": list(proof.remarks),
        }
    return line | {"seconds": round(time.perf_counter() - began, 1)}


def written(lines: Path) -> dict[str, Line]:
    """The lines of a file, by name."""
    if not lines.exists():
        return {}
    found = [json.loads(text) for text in lines.read_text().splitlines() if text]
    return {line["name"]: line for line in found}


def table() -> dict[str, Line]:
    """The kept table, by name."""
    return {line["name"]: line for line in json.loads(TABLE.read_text())} if TABLE.exists() else {}


def keep(lines: dict[str, Line]) -> None:
    """Write lines over those of the kept table, one a row, in the order of the list; without what is no more in it."""
    known = table() | lines
    ordered = [json.dumps(known[right.name], ensure_ascii=False) for right in every([]) if right.name in known]
    TABLE.write_text("[\n" + ",\n".join(ordered) + "\n]\n")


def counted(lines: list[Line]) -> dict[str, dict[str, int]]:
    """How many lines of each source end in each word."""
    sources = dict.fromkeys(line["source"] for line in lines)
    return {
        source: dict(Counter(line["word"] for line in lines if line["source"] == source).most_common())
        for source in sources
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="*", choices=[[], *SOURCES])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=COUNT)
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--lines", type=Path, default=Path("false_alarms.jsonl"))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    import jax

    warnings.simplefilter("ignore")  # torch's, about what its own samples ask for
    jax.config.update("jax_disable_most_optimizations", True)  # far more is compiled than computed
    known = written(given.lines)
    rights = every(given.sources, range(given.first, given.last))
    for right in rights:
        if right.name in known:
            continue
        line = known[right.name] = line_of(right, static=given.static)
        with given.lines.open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        print(f"{line['word']:8} {right.name} {line['why']}", flush=True)
        if not len(known) % TOGETHER:
            jax.clear_caches()
    lines = [known[right.name] for right in rights]
    for source, words in counted(lines).items():
        print(f"{source}: {sum(words.values())} run, {', '.join(f'{count} {word}' for word, count in words.items())}")
    if given.table:
        keep(known)
    return 1 if {line["word"] for line in lines} & {"differ", RAISED} else 0


if __name__ == "__main__":
    sys.exit(main())
