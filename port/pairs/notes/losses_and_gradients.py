"""Losses, gradients and reductions."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_FUNCTIONAL = "tests/port/nn/functional"
_OWN = "tests/port/pairs/notes/test_losses_and_gradients.py"

NOTES = (
    Note(
        "G1",
        "cross entropy's mean",
        torch="Labels of −100 (ignore_index) are left out of the mean; with class weights it divides by their sum.",
        jax="optax's loss with integer labels has no ignored label, −100 gives NaN; a plain mean of weighted losses "
        "divides by their number.",
        remedy="`port.nn.functional.cross_entropy`, or mask, sum and divide by the sum of the weights that count.",
        causes=("ignored-labels-counted", "class-weights-not-in-mean"),
        tests=(
            f"{_FUNCTIONAL}/test_classification_losses.py::test_G1_ignored_labels_leave_the_mean",
            f"{_FUNCTIONAL}/test_classification_losses.py::test_G1_weighted_mean_divides_by_the_weights",
        ),
    ),
    Note(
        "G2",
        "squared error and Huber",
        torch="mse_loss is the mean of squares; smooth_l1_loss(beta) is huber_loss(delta=beta) / beta.",
        jax="optax.l2_loss is half the square; optax.huber_loss(delta) is torch's huber_loss, and delta times "
        "smooth_l1_loss.",
        remedy="Twice l2_loss, or optax.squared_error; divide Huber's by delta for smooth_l1_loss.",
        causes=("half-squared-error", "huber-for-smooth-l1"),
        tests=(f"{_FUNCTIONAL}/test_regression_losses.py::test_G2_mean_of_squares",),
    ),
    Note(
        "G3",
        "the gradient at a kink",
        torch="At its edges clamp with numbers has 0 (1 in torch 2.13), clamp with tensors 0.5, hardtanh 0; abs, norm "
        "and std have 0 at zero; among equal maxima max(dim) picks one, max() and amax share the gradient, and since "
        "torch 2.14 fmax and fmin too (before, the first gets all; in 2.14 so does a NaN next to a number).",
        jax="jnp.clip has 0.5 at its edges, hard_tanh 1; abs has 1 at zero, norm and std NaN; equal maxima share it.",
        remedy="The functions of `port.nn.functional`, which have torch's gradient; or `jnp.where` around the kink.",
        causes=("gradient-at-a-kink",),
        tests=(
            f"{_OWN}::test_G3_clamp_at_its_edges",
            "tests/port/pairs/ops/test_operators.py::test_G3_the_gradient_of_fmax_depends_on_torchs_release",
            f"{_FUNCTIONAL}/test_kinks.py::test_absolute",
            f"{_FUNCTIONAL}/test_kinks.py::test_std",
            f"{_FUNCTIONAL}/test_kinks.py::test_faults_are_seen",
            f"{_FUNCTIONAL}/test_activation.py::test_G3_jaxs_own_is_another_there",
            f"{_FUNCTIONAL}/test_activation.py::test_G3_values_and_gradients_are_torchs_at_kinks_and_far_out",
            f"{_FUNCTIONAL}/test_max_pooling.py::"
            "test_G3_equals_share_the_gradient_of_a_plain_maximum_and_not_of_a_pool",
        ),
    ),
    Note(
        "G4",
        "standard deviation and variance",
        torch="Divide by n − 1.",
        jax="Divide by n.",
        remedy="`ddof=1`.",
        causes=("unbiased-variance", "biased-variance"),
        tests=("tests/port/pairs/layers/test_stateless.py::test_G4_a_spread_divides_by_one_less_in_torch",),
    ),
    Note(
        "G5",
        "sums of integers",
        torch="The sum of int32 is int64.",
        jax="Without x64 there is no 64-bit type: the sum is int32 and wraps around. With x64 it is int64.",
        remedy="Turn x64 on, or sum as floats where counts may get large.",
        outside="It concerns programs without x64, which a check turns on.",
        tests=(f"{_OWN}::test_G5_a_sum_of_int32_wraps_around_without_x64",),
    ),
    Note(
        "G6",
        "the precision of float32 products",
        torch="On a GPU matrix products are exact float32, cudnn's convolutions are TF32.",
        jax="TF32 on NVIDIA GPUs since Ampere, bfloat16 on a TPU.",
        remedy='`jax_default_matmul_precision="highest"` and `torch.backends.cudnn.allow_tf32 = False`.',
        causes=("tf32-products",),
        untested="On a CPU both compute float32 products in float32; this is from the documentation of both.",
    ),
    Note(
        "G7",
        "a Python number times booleans",
        torch="float32, the default dtype, whatever the dtypes around it.",
        jax="The default float: float64 with x64 on.",
        remedy="Convert the booleans first: `mask.to(x.dtype)`.",
        outside="torch itself rounds to float32; a check reports that it cannot judge this.",
        tests=(f"{_OWN}::test_G7_a_number_times_booleans_is_float32_in_torch",),
    ),
)
