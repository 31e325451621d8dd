"""Translate a part of a model on its own, to vary arguments of its class that no setting of the model varies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from port.translation.both_modes import BothRuns, both_runs
from port.translation.frontend.construction import Construction, constructed
from port.translation.frontend.construction.settings import ConfiguredModel
from port.translation.frontend.example_inputs import inside
from port.translation.ir.instrumentation import unwatched
from port.translation.ir.origin_numbers import plain
from port.translation.programs import ModelProgram, constructed_at, model_program
from port.translation.structure.init_inference import watched


@dataclass(frozen=True)
class IsolatedPart:
    """A part with its settings and its program."""

    model: ConfiguredModel
    model_program: ModelProgram


def isolated_part(path: str, captured: BothRuns, construction: Construction) -> IsolatedPart | None:
    """Translate a part of a model as the model constructs and calls it; None where that fails.

    Args:
        path: the part's path.
        captured: the model's runs.
        construction: how the model is constructed.
    """
    try:
        part, args, kwargs = inside(captured.root, path, captured.args, captured.kwargs)
        arguments = {name: plain(value) for name, value in construction.arguments[path].items()}
        model = ConfiguredModel(type(part), arguments, ((args, kwargs),))
        with unwatched():
            run = partial(both_runs, constructed_at(model), check=False)
            cases = [run(args, kwargs, free=())]
            root = cases[0].root
            reconstructed = constructed(root, model.construct)
            if reconstructed is None:
                return None
            return IsolatedPart(model, model_program(cases, run, watched(root, None), reconstructed))
    except Exception:  # the original's code may raise anything
        return None
