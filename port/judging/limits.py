"""How far apart two sides may be that are the same, and where each limit is from. The only table of limits.

float64 is the proof: rounding stays near 1e-12 over thousands of steps, a real difference does not. In float32 training
makes rounding large, so a run is measured against *controls*: the same PyTorch run with its initial weights moved in
their last places. Some trainings do that to float64's rounding as well (two networks against each other, a rate far
too high): where the losses of a script part behind the early steps alone, and controls that are moved in float64's last
places stray as far, nothing is said of the steps from there on. Tensors of one step have controls as well, where they
are beyond their limits (`port.parity.compare.control`).
"""

from __future__ import annotations

from dataclasses import dataclass

# %% The tensors of one step: outputs, gradients, buffers


@dataclass(frozen=True)
class Limits:
    """What a difference of two tensors may be.

    Attributes:
        forward: of an output, a buffer or a layer's output, relative to its own size.
        gradient: of a gradient, likewise.
        share: a gradient below this share of the largest is set in relation to that share: one that is zero but for
            rounding (a convolution's bias before BatchNorm) has no relative difference that means anything.
        absolute: below which anything is equal; what a person gives as ``atol``.
        why: why they are wider than float64's; empty if they are not.
    """

    forward: float
    gradient: float
    share: float
    absolute: float = 0.0
    why: str = ""


TENSORS = {
    # Two modules side by side: as tight as right ports of the tests are found to be.
    "float64": Limits(forward=1e-10, gradient=1e-9, share=1e-3),
    # A translation. torchvision's 109 models: outputs 3.2e-13 apart at most, gradients 4.8e-9 (vgg13_bn), statistics
    # 1.8e-13.
    "translation": Limits(forward=1e-9, gradient=1e-7, share=1e-6),
    # A float32 part leaves 2^-24 of each of its numbers, some tens of units where sums are long.
    "mixed": Limits(
        forward=1e-6,
        gradient=1e-4,
        share=1e-6,
        why="the original's own code computes a part in float32 or less, whatever its precision: the limits are as "
        "wide as what that leaves of float64",
    ),
    # Every sum of a thousand terms is rounded in another order, 1e-7 · √1000 a layer; deep networks and BatchNorm's
    # backward pass enlarge that. Faults smaller than this are not seen: float64 is the proof.
    "float32": Limits(
        forward=1e-4,
        gradient=1e-3,
        share=1e-2,
        why="the original does not run in float64: both sides ran in float32, and the limits are float32's",
    ),
}
"""By what both sides compute in, and what is compared."""

CONTROL_FACTOR = 10.0
"""How many times further astray than the furthest control a right side may be."""

CONTROL_RUNS = 3
"""How many controls judge the tensors of one step, if any is beyond its limit."""

CONTROL_UNITS = 4
"""By how many units in the last place the numbers of such a control are moved: the other side adds in another order,
and rounds at each addition."""

ROUNDING_UNITS = 8
"""What a tensor may differ by, in units in the last place of the largest number that went into it. An erf that has
reached 1 has lost what it differs from 1 by, on each side in its own way."""

MASK = 1e6
"""Larger numbers are taken for a mask's, and do not count as something that went into a tensor."""

# %% The losses of a run

PROOF_LIMIT = 1e-9
"""float64: the largest relative difference of a loss, at any step or evaluation. Right trainers are 1e-12 apart over a
thousand steps."""

WEIGHTS_LIMIT = 1e-7
"""float64: the largest difference of a final parameter or running statistic, relative to its tensor's largest
magnitude, or absolute where that is below 1."""

# The float32 constants were chosen on seeds 0–19 of mlp and convnet with sgd, adam and adamw on digits, 500 steps,
# batch 64 (120 right runs, three controls each), and then counted on seeds 20–39 (120 more): no false alarm in either
# half. The early ones were widened once more for the first steps of three right MNIST runs, which all lie under them
# now. How far the controls are moved (`port.weights.torch.CONTROL_UNITS`) decides that. At these limits controls moved
# by 1 unit in the last place called 11 of 28 right runs wrong, by 16 units 5 of 62, by 128 units 0 of 240: a loss jumps
# when a ReLU near zero falls on its other side, and a control nearer to its original than JAX can be jumps later than
# JAX.

EARLY_STEPS = 2
"""How many steps are judged by themselves, before training has made rounding large: the second sees one update."""

EARLY_LIMIT = 5e-5
"""float32: the largest relative difference within the early steps. Right runs were up to 6e-6 apart there on digits,
and 2.5e-5 on MNIST, where one ReLU decides over all the blank pixels of an image at once."""

LATER_FLOOR = 2e-4
"""float32: what a later step may differ by, however near the controls are. A ReLU close to zero falls on its other
side, at a moment of its own in each run, and the loss jumps by so much."""

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The spacing of each type's numbers at 1."""

# %% How long a comparison may take

TIME_LIMIT = 900.0
"""Seconds that a comparison of two modules may take by its estimate, if nothing else is said."""

SIZES_LIMIT = 60.0
"""Seconds that comparing both sides at other sizes may take, if nothing else is said."""

LONG = 60.0
"""Seconds from which on a command says beforehand how long a comparison takes."""
