"""Precision: how closely two correct trainers agree, and where even float64 cannot judge."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_OWN = "tests/port/pairs/notes/test_precision.py"
_TRAIN = "tests/side_by_side/test_train.py"
_LONG = "tests/side_by_side/test_long_runs.py"
_JUDGING = "It concerns how closely two correct runs agree: nothing in the model is wrong."

NOTES = (
    Note(
        "P1",
        "how closely two correct trainers agree in float32",
        torch="Sums in another order than XLA, so it rounds differently.",
        jax="Training amplifies that rounding: the losses of an MLP with momentum SGD are 1e-7 apart in step 1, "
        "1e-4 up to step 100 and 8e-2 up to step 500; with Adam 7e-2; of a convnet with BatchNorm 0.19 (torch 2.13).",
        remedy="Judge against controls (P3), or in float64 (P2).",
        outside=_JUDGING,
        tests=(f"{_TRAIN}::test_float32_is_as_equal_as_it_can_be", f"{_LONG}::test_float32_raises_no_false_alarm"),
    ),
    Note(
        "P2",
        "how closely two correct trainers agree in float64",
        torch="Rounds differently from XLA in the sixteenth digit.",
        jax="The losses are 4e-16 apart in step 1, at most 5e-15 up to step 100, 4e-14 up to step 500 and 1e-12 up to "
        "step 1500: an MLP with momentum SGD or Adam, a convnet with BatchNorm and SGD (torch 2.13).",
        remedy="This is the proof: a larger difference means a different computation.",
        outside=_JUDGING,
        tests=(f"{_TRAIN}::test_float64_is_the_same_at_every_step", f"{_LONG}::test_float64_over_500_steps"),
    ),
    Note(
        "P3",
        "how far float32 runs drift by rounding alone",
        torch="The same run with its batch summed in four parts drifts as far within a few hundred steps as another "
        "framework's run.",
        jax="The same: on 1 and on 4 devices losses differ by 0.6 within 200 steps.",
        remedy="Run PyTorch again from weights changed in the last place: a correct JAX run drifts no further than "
        "such controls.",
        outside=_JUDGING,
        tests=(
            f"{_OWN}::test_P3_rounding_alone_parts_float32_runs_and_not_float64_ones",
            f"{_TRAIN}::test_float32_is_as_equal_as_it_can_be",
        ),
    ),
    Note(
        "P4",
        "a gradient that is zero up to rounding",
        torch="A bias before BatchNorm has a gradient of 1e-17 noise, and Rprop, Adafactor, RMSprop and Adam "
        "divide by its size.",
        jax="Other noise: in free runs of 60 steps such a parameter differs by 0.6 (Rprop), 2e-2 (Adafactor), 4 to 24 "
        "(RMSprop with decay), up to 6e-8 (Adam and its variants; torch 2.13).",
        remedy="Leave that bias out; or compare optimizers on one recorded sequence of gradients for both.",
        outside=_JUDGING,
        tests=(
            f"{_OWN}::test_P4_a_bias_before_batch_norm_has_a_gradient_of_rounding_alone",
            f"{_TRAIN}::test_the_convnet_with_every_optimizer",
            "tests/port/optim/test_free_running.py::test_within_ten_times_the_floor",
        ),
    ),
    Note(
        "P5",
        "BatchNorm over two values",
        torch="Ill-conditioned: every x becomes ±1, and its gradient is the difference of equal numbers.",
        jax="The same, rounded differently: in training at 32×32 and batch 2, mobilenet_v2 differs by 5e-7 forward and "
        "by 2 in gradients; at 64×64 resnet50 by 2e-13 and 2e-12 (torch 2.13).",
        remedy="Use at least 16 values per channel in every BatchNorm.",
        outside=_JUDGING,
        tests=(
            f"{_OWN}::test_P5_batch_norm_over_two_values_loses_the_gradients_digits",
            "tests/port/parity/test_checking.py::test_a_small_batch_is_remarked_on",
        ),
    ),
    Note(
        "P6",
        "Muon",
        torch="Orthogonalises in bfloat16, whatever the parameters' dtype.",
        jax="The same in `port.transforms`; sums in another order occasionally round to the other bfloat16, at "
        "any size (up to 1e-3 of the weights; 5.5e-3 apart at 256×512, torch 2.13).",
        remedy="Allow for such a difference; optax.contrib.muon is a different optimizer.",
        outside=_JUDGING,
        tests=(
            "tests/port/transforms/test_muon.py::test_larger_matrices_differ_where_a_sum_lies_between_two_bfloat16s",
        ),
    ),
    Note(
        "P7",
        "L-BFGS",
        torch="With a new batch in each step its curvature estimate is noise: two correct runs diverge.",
        jax="The same.",
        remedy="Compare it on a fixed, well-conditioned problem, where they agree.",
        outside=_JUDGING,
        tests=("tests/port/optim/test_torchs_database.py::test_lbfgs_on_a_fixed_problem",),
    ),
    Note(
        "P8",
        "models that deliberately compute parts in float32",
        torch="Rotary tables, and the RMSNorm of large language models.",
        jax="The same, and also the softmax of jax.nn's attention.",
        remedy="They agree only to 2e-7, whatever the dtype around them: `port.check(…, rtol=1e-6)`.",
        causes=("narrow-float32",),
        tests=(
            "tests/port/parity/diagnose/test_rounding.py::test_rounding_alone_is_told_with_what_to_do",
            "tests/port/weights/test_written_apart.py::test_flaxs_own_attention_takes_its_softmax_in_float32",
        ),
    ),
    Note(
        "P9",
        "subnormal numbers",
        torch="Computes with them.",
        jax="XLA on a CPU flushes them to 0, in inputs and results: an MLP trained with Rprop diverges at step 64.",
        remedy="`torch.set_flush_denormal(True)`; that run then agrees to 9.9e-15.",
        outside="The numbers are below a check's limits.",
        tests=(f"{_OWN}::test_P9_xla_flushes_subnormals_to_zero_and_torch_may",),
    ),
    Note(
        "P10",
        "float16 and the CPU",
        torch="Computes in float32 and rounds after each operation.",
        jax="XLA fuses a product and a sum into one rounding where the processor computes in float16 (AVX512-FP16); "
        "elsewhere it rounds twice.",
        remedy="Compare the last bits of float16 only on one kind of CPU.",
        causes=("narrow-float16",),
        tests=("tests/port/random/test_draws.py::test_uniform_is_jaxs_in_each_dtype",),
    ),
)
