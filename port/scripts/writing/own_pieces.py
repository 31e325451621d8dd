"""Source pieces of a trainer around batches that the script makes itself: carried states, and rates set by hand."""

from __future__ import annotations

from textwrap import indent

from port.scripts.writing.trainer_facts import TrainerFacts

REPLAYED = """\
                for _ in training:  # brings its generators to the same state
                    pass
"""


NUMBERS = """\
each = iter({numbers}(len(training)))
for _ in range(step):
    next(each)
"""


def own_pieces(facts: TrainerFacts) -> dict[str, str]:
    """The pieces for a loop whose rate is set by hand, and for one that carries states."""
    names = ["data" if facts.data == "data" else f"{facts.data} as data", "options"]
    first = ""
    if facts.states:
        first = f"FIRST = {tuple(map(tuple, facts.first))!r}\n"
        first += f'"""The shapes of {", ".join(facts.states)}, which are zeros at the start of a pass."""\n'
        first += f"FIRST_EVALUATED = {tuple(map(tuple, facts.first_evaluated))!r}\n" if facts.evaluation else ""
    schedule, next_rate = "", ""
    if facts.hears:
        schedule = "for value in found:\n    lr = schedule.send(value)\n"
        next_rate = "found.append(evaluated)\nlr = schedule.send(evaluated)\n"
    elif facts.takes_rate:
        schedule, next_rate = "for _ in range(done + 1):\n    lr = next(schedule)\n", "lr = next(schedule)\n"
    elif facts.numbers:
        schedule = NUMBERS.format(numbers=facts.numbers)
    if facts.takes_rate:
        schedule = f"schedule = rates(args)\nlr = next(schedule)\n{schedule}"
    return {
        "original": ", ".join([*names, *(["rates"] if facts.takes_rate and not facts.in_steps else [])]),
        "first": first,
        "schedule": indent(schedule, " " * 4),
        "next_rate": indent(next_rate, " " * 12),
        "lr": "lr, " if facts.takes_rate else "next(each), " if facts.numbers == "rates" else "",
        "numbers": ", *next(each)" if facts.numbers == "numbers" else "",
        "carried": ", carried" if facts.states else "",
        "replayed": REPLAYED if facts.own else "",
        "first_carried": " " * 12 + "carried = [np.zeros(shape, dtype) for shape in FIRST]\n" if facts.states else "",
        "found": ", found" if facts.hears else "",
        "unfound": ", [0.0] * (keeper.latest_step() + 1)" if facts.hears else "",
        "hearing": ", found: list[float]" if facts.hears else "",
        "heard": ', "found": np.array(found)' if facts.hears else "",
        "remembered": '        found = [float(one) for one in kept["found"]]\n' if facts.hears else "",
        "listening": "    found: list[float] = []  # the result of each evaluation\n" if facts.hears else "",
    }
