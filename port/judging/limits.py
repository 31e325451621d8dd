"""How far apart two equal sides may be, and where each limit comes from. The only table of limits.

float64 is the proof: rounding stays near 1e-12 over thousands of steps, a real difference does not. In float32,
training amplifies rounding, so a run is measured against *controls*: the same PyTorch run with its initial weights
perturbed in their last places. Some trainings amplify even float64's rounding (two networks against each other, a rate
far too high): if the losses of a script part only after the early steps, and controls that are perturbed in float64's
last places stray as far, the steps from there on are not judged. Tensors of one step have controls as well, if they
exceed their limits (`port.parity.compare.control`).
"""

from __future__ import annotations

from dataclasses import dataclass

# %% The tensors of one step: outputs, gradients, buffers


@dataclass(frozen=True)
class Limits:
    """The allowed differences of two tensors.

    Attributes:
        forward: of an output, a buffer or a layer's output, relative to its own size.
        gradient: of a gradient, likewise.
        share: a gradient below this share of the largest is measured relative to that share: one that is zero but for
            rounding (a convolution's bias before BatchNorm) has no meaningful relative difference.
        absolute: differences below it count as equal; the user's ``atol``.
        why: why the limits are wider than float64's; empty if they are not.
    """

    forward: float
    gradient: float
    share: float
    absolute: float = 0.0
    why: str = ""


TENSORS = {
    # Two modules side by side: as tight as the correct ports in the tests allow.
    "float64": Limits(forward=1e-10, gradient=1e-9, share=1e-3),
    # A translation. torchvision's 109 models: outputs 3.2e-13 apart at most, gradients 4.8e-9 (vgg13_bn), statistics
    # 1.8e-13.
    "translation": Limits(forward=1e-9, gradient=1e-7, share=1e-6),
    # A float32 part leaves 2^-24 of each of its numbers, some tens of units where sums are long.
    "mixed": Limits(
        forward=1e-6,
        gradient=1e-4,
        share=1e-6,
        why="the original's own code computes a part in float32 or less, whatever its precision: the limits allow for "
        "what that leaves of float64",
    ),
    # Every sum of a thousand terms is rounded in another order, 1e-7 · √1000 a layer; deep networks and BatchNorm's
    # backward pass amplify that. Smaller faults go unnoticed: float64 is the proof.
    "float32": Limits(
        forward=1e-4,
        gradient=1e-3,
        share=1e-2,
        why="the original does not run in float64: both sides ran in float32, and the limits are float32's",
    ),
}
"""Limits by the precision of both sides and by what is compared."""

CONTROL_FACTOR = 10.0
"""How many times further than the furthest control a correct side may stray."""

CONTROL_RUNS = 3
"""How many controls judge the tensors of one step, if any exceeds its limit."""

CONTROL_UNITS = 4
"""How many units in the last place such a control perturbs the numbers by: the other side adds in another order,
and rounds at each addition."""

ROUNDING_UNITS = 8
"""How far a tensor may differ, in units in the last place of the largest number that went into it. An erf that has
reached 1 has lost its distance from 1, on each side in its own way."""

MASK = 1e6
"""Larger numbers are taken to be a mask's, and do not count as something that went into a tensor."""

# %% The losses of a run

PROOF_LIMIT = 1e-9
"""float64: the largest relative difference of a loss, at any step or evaluation. Correct trainers are 1e-12 apart over
a thousand steps."""

WEIGHTS_LIMIT = 1e-7
"""float64: the largest difference of a final parameter or running statistic, relative to its tensor's largest
magnitude, or absolute if that is below 1."""

# The float32 constants were chosen on seeds 0–19 of mlp and convnet with sgd, adam and adamw on digits, 500 steps,
# batch 64 (120 correct runs, three controls each), and then tested on seeds 20–39 (120 more): no false alarm in either
# half. The early ones were widened once more for the first steps of three correct MNIST runs, which all pass now. How
# far the controls are perturbed (`port.weights.torch.CONTROL_UNITS`) matters. At these limits, controls perturbed by 1
# unit in the last place called 11 of 28 correct runs wrong, by 16 units 5 of 62, by 128 units 0 of 240: a loss jumps
# when a ReLU near zero falls on its other side, and a control that is closer to its original than JAX can be jumps
# later than JAX.
# JAX.

EARLY_STEPS = 2
"""How many steps are judged on their own, before training amplifies rounding: the second sees one update."""

EARLY_LIMIT = 5e-5
"""float32: the largest relative difference within the early steps. Correct runs were up to 6e-6 apart there on digits,
and 2.5e-5 on MNIST, where one ReLU decides over all the blank pixels of an image at once."""

LATER_FLOOR = 2e-4
"""float32: how far a later step may differ, however close the controls are. A ReLU close to zero falls on its other
side, at a different step in each run, and the loss jumps by that much."""

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The spacing of each type's numbers at 1."""

# %% How long a comparison may take

TIME_LIMIT = 900.0
"""Seconds that comparing two modules may take by its estimate, by default."""

SIZES_LIMIT = 60.0
"""Seconds that comparing both sides at other sizes may take, by default."""

LONG = 60.0
"""Comparisons that take longer than this many seconds are announced with their duration."""
