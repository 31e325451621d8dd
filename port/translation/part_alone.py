"""A part of a model by itself, so that the arguments of its class can be moved that no setting of the model moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from port.translation.both_modes import BothRuns, both_runs
from port.translation.frontend.construction import Construction, constructed
from port.translation.frontend.construction.settings import ConfiguredModel
from port.translation.frontend.example_inputs import inside
from port.translation.ir.instrumentation import unwatched
from port.translation.ir.origin_numbers import plain
from port.translation.programs import Programmed, constructed_at, programmed
from port.translation.structure.init_inference import watched


@dataclass(frozen=True)
class PartAlone:
    """A part, and how it is constructed."""

    model: ConfiguredModel
    programmed: Programmed


def part_alone(path: str, captured: BothRuns, construction: Construction) -> PartAlone | None:
    """A part of a model as the model constructs and calls it; None where it cannot be translated by itself.

    Args:
        path: of the part.
        captured: the model.
        construction: how that is constructed.
    """
    try:
        part, args, kwargs = inside(captured.root, path, captured.args, captured.kwargs)
        given = {name: plain(value) for name, value in construction.arguments[path].items()}
        model = ConfiguredModel(type(part), given, ((args, kwargs),))
        with unwatched():
            run = partial(both_runs, constructed_at(model), check=False)
            cases = [run(args, kwargs, free=())]
            root = cases[0].root
            again = constructed(root, model.construct)
            if again is None:
                return None
            return PartAlone(model, programmed(cases, run, watched(root, None), again))
    except Exception:  # the original's code, which may refuse anything
        return None
