"""Gradient accumulation: torch's loop of backward calls, and the ways to write it in JAX.

Memory figures are those that `side_by_side/jax/accumulate.py` prints: its MLP's temporary memory for a batch of 1,024
in 64 microbatches. The whole batch at once takes 4.4 MB.
"""

from __future__ import annotations

from port.pairs.notes.difference import Note

_LESSON = "tests/side_by_side/test_accumulate.py"
_LOOP = "A loop of backward() calls; each frees its microbatch's activations."
_RIGHT = f"{_LESSON}::test_without_batch_statistics_it_is_the_whole_batch"
_PROGRAM = f"{_LESSON}::test_the_program_of_a_loop_inside_does_not_grow_and_an_unrolled_one_does"
_MEMORY = f"{_LESSON}::test_temporary_memory_falls_with_the_microbatch"
_STEP = "It concerns a training step; a check compares models."

NOTES = (
    Note(
        "A1",
        "an unrolled loop over microbatches",
        torch=_LOOP,
        jax="A Python loop inside jit is unrolled: the program grows with the microbatches and XLA keeps the "
        "activations of all (5.7 MB, and ten times the compile time of a loop inside).",
        remedy="`jax.lax.scan` (A3).",
        outside=_STEP,
        tests=(_PROGRAM, _MEMORY, _RIGHT),
    ),
    Note(
        "A2",
        "lax.fori_loop over microbatches",
        torch=_LOOP,
        jax="One microbatch's program, run repeatedly (0.12 MB).",
        remedy="Correct as it is; scan (A3) also slices the microbatches.",
        outside=_STEP,
        tests=(_PROGRAM, _MEMORY, _RIGHT),
    ),
    Note(
        "A3",
        "lax.scan over microbatches",
        torch=_LOOP,
        jax="One microbatch's program, run repeatedly (0.12 MB).",
        remedy="None needed: this is the form to use.",
        outside=_STEP,
        tests=(_PROGRAM, _MEMORY, _RIGHT),
    ),
    Note(
        "A4",
        "vmap over microbatches",
        torch=_LOOP,
        jax="All microbatches at once: more memory than the whole batch, which defeats the purpose of accumulation "
        "(6.4 MB).",
        remedy="`jax.lax.scan` (A3).",
        outside=_STEP,
        tests=(_MEMORY, _RIGHT),
    ),
    Note(
        "A5",
        "the dtype of optax.MultiSteps' sums",
        torch="`grad` has its parameter's dtype.",
        jax="float32, even with x64 on: float64 parameters are off by 1.3e-9.",
        remedy="`accumulator_dtype=float`: 7e-17.",
        outside=_STEP,
        tests=(f"{_LESSON}::test_multi_steps_accumulates_in_float32_unless_told_otherwise",),
    ),
    Note(
        "A6",
        "memory of a depthwise convolution's gradient",
        torch="Grows with the channels.",
        jax="XLA on a CPU uses temporary memory for the kernel's gradient that grows with the square of the "
        "channels, in float32 and float64 (3×3 on 14×14: 21 MB at 384 channels in float64). "
        "efficientnet_v2_l's in float64 asked for 38 GB.",
        remedy="Allow 2·k²·C² numbers for the largest layer: smaller microbatches do not reduce it.",
        outside=_STEP,
        tests=("tests/port/pairs/notes/test_accumulation.py::test_A6_temporary_memory_grows_with_the_channels_square",),
    ),
)
