"""torch's operators and what one writes for them in JAX, as data: nothing of torch or JAX is imported.

Their test runs both sides of each on the samples of torch's own database of operators. What has two sides in
`port.pairs.losses` is not here again; nor is what draws random numbers, or writes in place.
"""

from port.pairs.ops import (
    comparisons,
    elementwise,
    functional,
    indexing,
    making,
    matrices,
    reductions,
    shapes,
    special,
)
from port.pairs.ops.operator_pair import GIVEN, OperatorPair

OPERATORS: tuple[OperatorPair, ...] = (
    *elementwise.PAIRS,
    *comparisons.PAIRS,
    *special.PAIRS,
    *reductions.PAIRS,
    *shapes.PAIRS,
    *indexing.PAIRS,
    *matrices.PAIRS,
    *making.PAIRS,
    *functional.PAIRS,
)

__all__ = ["GIVEN", "OPERATORS", "OperatorPair"]
