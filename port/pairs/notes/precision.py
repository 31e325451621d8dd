"""Precision: how close two right trainers come, and where float64 itself is no judge."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_OWN = "tests/port/pairs/notes/test_precision.py"
_TRAIN = "tests/side_by_side/test_train.py"
_LONG = "tests/side_by_side/test_long_runs.py"
_JUDGING = "Of how closely two right runs agree: nothing in the model is at fault."

NOTES = (
    Note(
        "P1",
        "how close two right trainers come in float32",
        torch="Adds up in another order than XLA does, which rounds otherwise.",
        jax="Training makes that rounding large: the losses of an MLP by SGD with momentum are 1e-7 apart in step 1, "
        "1e-4 up to step 100 and 8e-2 up to step 500; by Adam 7e-2; of a convnet with BatchNorm 0.19 (torch 2.13).",
        remedy="Judge against controls (P3), or in float64 (P2).",
        outside=_JUDGING,
        tests=(f"{_TRAIN}::test_float32_is_as_equal_as_it_can_be", f"{_LONG}::test_float32_raises_no_false_alarm"),
    ),
    Note(
        "P2",
        "how close two right trainers come in float64",
        torch="Rounds otherwise than XLA, in the sixteenth digit.",
        jax="The losses are 4e-16 apart in step 1, at most 5e-15 up to step 100, 4e-14 up to step 500 and 1e-12 up to "
        "step 1500: an MLP by SGD with momentum or by Adam, a convnet with BatchNorm by SGD (torch 2.13).",
        remedy="This is the proof: what differs by more is another computation.",
        outside=_JUDGING,
        tests=(f"{_TRAIN}::test_float64_is_the_same_at_every_step", f"{_LONG}::test_float64_over_500_steps"),
    ),
    Note(
        "P3",
        "how far float32 strays from itself",
        torch="The same run, its batch summed in four parts, strays within a few hundred steps as far as another "
        "framework's run does.",
        jax="Likewise: on 1 and on 4 devices losses part by 0.6 within 200 steps.",
        remedy="Run PyTorch again from weights moved in their last place: a right JAX run strays no further than "
        "such controls do.",
        outside=_JUDGING,
        tests=(
            f"{_OWN}::test_P3_rounding_alone_parts_float32_runs_and_not_float64_ones",
            f"{_TRAIN}::test_float32_is_as_equal_as_it_can_be",
        ),
    ),
    Note(
        "P4",
        "a gradient that is zero but for rounding",
        torch="A bias before BatchNorm gets noise of 1e-17 for a gradient, and Rprop, Adafactor, RMSprop and Adam "
        "divide by its size.",
        jax="Other noise: in free runs of 60 steps such a parameter parts by 0.6 (Rprop), 2e-2 (Adafactor), 4 to 24 "
        "(RMSprop with decay), up to 6e-8 (Adam and kin; torch 2.13).",
        remedy="No bias there; or judge an optimizer on one recorded sequence of gradients given to both.",
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
        torch="Ill-conditioned: x becomes ±1 whatever it is, and its gradient the difference of equal numbers.",
        jax="The same, otherwise rounded: in training at 32×32 and batch 2, mobilenet_v2 differs by 5e-7 forward and "
        "by 2 in gradients; at 64×64 resnet50 by 2e-13 and 2e-12 (torch 2.13).",
        remedy="At least 16 values a channel in every BatchNorm.",
        outside=_JUDGING,
        tests=(
            f"{_OWN}::test_P5_batch_norm_over_two_values_loses_the_gradients_digits",
            "tests/port/parity/test_checking.py::test_a_small_batch_is_remarked_on",
        ),
    ),
    Note(
        "P6",
        "Muon",
        torch="Orthogonalises in bfloat16, whatever the parameters are.",
        jax="The same in `port.transforms`; sums in another order now and then round to the other bfloat16, at "
        "any size (up to 1e-3 of the weights; 5.5e-3 apart at 256×512, torch 2.13).",
        remedy="Allow for such a slip; optax.contrib.muon is another optimizer.",
        outside=_JUDGING,
        tests=(
            "tests/port/transforms/test_muon.py::test_larger_matrices_differ_where_a_sum_lies_between_two_bfloat16s",
        ),
    ),
    Note(
        "P7",
        "L-BFGS",
        torch="On a new batch in each step its curvature is noise: two right runs part.",
        jax="The same.",
        remedy="Compare it on a fixed, well-conditioned problem, where they agree.",
        outside=_JUDGING,
        tests=("tests/port/optim/test_torchs_database.py::test_lbfgs_on_a_fixed_problem",),
    ),
    Note(
        "P8",
        "models that compute a part in float32 on purpose",
        torch="Rotary tables, the RMSNorm of large language models.",
        jax="The same, and the softmax of jax.nn's attention.",
        remedy="They agree to 2e-7 and no better, whatever the dtype around them: `port.check(…, rtol=1e-6)`.",
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
        jax="XLA on a CPU takes and gives 0 for them: an MLP trained by Rprop parts at step 64.",
        remedy="`torch.set_flush_denormal(True)`; that run then agrees to 9.9e-15.",
        outside="Of numbers too small for a check's limits.",
        tests=(f"{_OWN}::test_P9_xla_flushes_subnormals_to_zero_and_torch_may",),
    ),
    Note(
        "P10",
        "float16 and the CPU",
        torch="Computes in float32 and rounds after each operation.",
        jax="XLA fuses a product and a sum into one rounding where the processor computes in float16 (AVX512-FP16); "
        "elsewhere it rounds twice.",
        remedy="Compare last bits of float16 on one kind of CPU only.",
        causes=("narrow-float16",),
        tests=("tests/port/random/test_draws.py::test_uniform_is_jaxs_in_each_dtype",),
    ),
)
