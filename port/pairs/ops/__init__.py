"""torch's operators and their JAX expressions, as data; neither torch nor JAX is imported.

A test runs both sides of each pair on the samples of torch's operator database. In-place operators are not listed.
`matching` finds the pair of an ATen node; it imports both libraries.
"""

from port.pairs.ops import (
    channels,
    comparisons,
    decompositions,
    diagonals,
    drawing,
    elementwise,
    functional,
    images,
    indexing,
    joining,
    linear_algebra,
    losses,
    making,
    matrices,
    reductions,
    scattering,
    shapes,
    special,
    spectra,
)
from port.pairs.ops.operator_pair import GIVEN, OperatorPair

OPERATORS: tuple[OperatorPair, ...] = (
    *elementwise.PAIRS,
    *comparisons.PAIRS,
    *special.PAIRS,
    *reductions.PAIRS,
    *joining.PAIRS,
    *shapes.PAIRS,
    *diagonals.PAIRS,
    *indexing.PAIRS,
    *scattering.PAIRS,
    *matrices.PAIRS,
    *linear_algebra.PAIRS,
    *decompositions.PAIRS,
    *making.PAIRS,
    *functional.PAIRS,
    *images.PAIRS,
    *channels.PAIRS,
    *losses.PAIRS,
    *spectra.PAIRS,
    *drawing.PAIRS,
)

__all__ = ["GIVEN", "OPERATORS", "OperatorPair"]
