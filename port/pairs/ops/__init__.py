"""torch's operators and what one writes for them in JAX, as data: nothing of torch or JAX is imported.

Their test runs both sides of each on the samples of torch's own database of operators. What writes in place is not
here. `matching` finds the pair of a node of ATen's; it imports both.
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
