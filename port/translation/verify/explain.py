"""Explain why the two sides of a proof differ: compare them layer by layer, and test possible causes."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from port.parity.checking import check
from port.parity.sides.inputs import Inputs, inputs_from
from port.translation.verify.explanation import NONE, Explanation

if TYPE_CHECKING:
    from port.parity.report import CheckReport
    from port.translation.verify.other_lengths import OriginalAndWritten


def explanation_of(sides: OriginalAndWritten, call: Any, modes: Collection[str]) -> Explanation:
    """Compare the original and the written module with `port.check`; the explanation is empty if that finds nothing.

    Dropout is off and draws are not matched, so differences in random numbers are not found.

    Args:
        sides: the original and the written module.
        call: (args, kwargs).
        modes: the modes in which they differ: "evaluation", "training".
    """
    try:
        report = _checked(sides, call)
    except Exception:  # check cannot run this model; the proof still says what differs
        return NONE
    return Explanation(
        tuple(parting for parting in report.partings if parting.mode in modes),
        tuple(cause for cause in report.causes if cause.mode in modes),
    )


def _checked(sides: OriginalAndWritten, call: Any) -> CheckReport:
    translation, (args, kwargs) = sides.translation, call
    taken = translation.to_flax(args, kwargs)
    gathers = any(name.startswith("**") for name in translation.boundary.parameters)
    return check(
        sides.module,
        translation.build(),
        _inputs(tuple(args), kwargs, sides.precision),
        flax_inputs=_inputs(taken[:-1] if gathers else taken, taken[-1] if gathers else {}, sides.precision),
        rename=translation.mapping,
        precision="float32" if sides.precision == "float32" else "float64",
    )


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any], precision: str) -> Inputs:
    return Inputs(inputs_from(args, precision).args, inputs_from(kwargs, precision).kwargs)
