"""optax schedules with the values of torch's schedulers.

Each takes the number of updates made so far, an int32 scalar (0 at torch's first step), concrete or traced, and
returns a scalar: float64 under x64, float32 otherwise. A schedule whose torch scheduler is stepped once an epoch
goes through `per_epoch`.
"""

from port.transforms.schedules.combined import chained_lr, per_epoch, sequential_lr
from port.transforms.schedules.cosine import cosine_annealing_lr, cosine_annealing_warm_restarts
from port.transforms.schedules.cyclic import cyclic_lr, cyclic_momentum
from port.transforms.schedules.decay import (
    constant_lr,
    exponential_lr,
    linear_lr,
    multi_step_lr,
    polynomial_lr,
    step_lr,
)
from port.transforms.schedules.function import by_function, lambda_lr, multiplicative_lr
from port.transforms.schedules.one_cycle import one_cycle_lr, one_cycle_momentum
from port.transforms.schedules.swa import swa_lr
from port.transforms.schedules.table import tabulated

__all__ = [
    "by_function",
    "chained_lr",
    "constant_lr",
    "cosine_annealing_lr",
    "cosine_annealing_warm_restarts",
    "cyclic_lr",
    "cyclic_momentum",
    "exponential_lr",
    "lambda_lr",
    "linear_lr",
    "multi_step_lr",
    "multiplicative_lr",
    "one_cycle_lr",
    "one_cycle_momentum",
    "per_epoch",
    "polynomial_lr",
    "sequential_lr",
    "step_lr",
    "swa_lr",
    "tabulated",
]
