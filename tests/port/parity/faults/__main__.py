"""Plant every fault, one at a time, and print what `port.check` says: ``python -m tests.port.parity.faults [WORD]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .fault import Outcome, outcome
from .planted import FAULTS, TWINS


def main(words: Sequence[str] = ()) -> int:
    """Print the table of the faults whose names have one of the words; 1 where something was not found."""
    chosen = [fault for fault in FAULTS if not words or any(word in str(fault) for word in words)]
    outcomes = []
    print(f"{'model':8} {'fault':40} {'layer':24} {'cause':28} false causes")
    for fault in chosen:
        try:
            outcomes.append(outcome(fault))
        except Exception as error:
            print(f"{fault.twin.name:8} {fault.kind:40} ERROR {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        print(_line(outcomes[-1]), flush=True)
    right = [twin for twin in TWINS if not words or twin.name in words]
    false = [f"{twin.name}: {report}" for twin in right if (report := twin.check({})).causes or not report]
    print(*_sums(outcomes), sep="\n")
    print(f"right models: {len(right)}, of which something was said of {len(false)}", *false, sep="\n")
    return 0 if not false and all(o.is_layer_named and o.named and not o.false for o in outcomes) else 1


def _line(found: Outcome) -> str:
    fault = found.fault
    layer = "yes" if found.is_layer_named else f"NO: {found.layer} for {fault.layer}"
    named = ", ".join(kind for kind in fault.causes if any(c.kind == kind for c in found.report.causes))
    return f"{fault.twin.name:8} {fault.kind:40} {layer:24} {named or 'NO':28} {', '.join(found.false)}".rstrip()


def _sums(outcomes: Sequence[Outcome]) -> list[str]:
    count = len(outcomes)
    kinds, models = {o.fault.kind for o in outcomes}, {o.fault.twin.name for o in outcomes}
    layers, named = sum(o.is_layer_named for o in outcomes), sum(o.named for o in outcomes)
    false = sum(bool(o.false) for o in outcomes)
    return [
        f"{count} faults of {len(kinds)} kinds in {len(models)} models",
        f"layer named: {layers} of {count}; cause named: {named} of {count}; with a false cause too: {false}",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
