"""Arrays and programs: what JAX's tracing, its indices, trees and keys do that PyTorch's eager code does not."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_BASICS = "tests/side_by_side/test_basics.py"
_PROGRAM = "Of a program around a model: a check compares models."

NOTES = (
    Note(
        "J1",
        "a value from outside a compiled function",
        torch="`torch.compile` guards on what a function closes over, and traces anew when it has changed.",
        jax="`jit` looks at it once: the value is a constant of the program, and stays what it was.",
        remedy="Pass it as an argument.",
        outside=_PROGRAM,
        tests=(f"{_BASICS}::test_traces",),
    ),
    Note(
        "J2",
        "a compiled function that writes to its model",
        torch="The model is the caller's, compiled or not: running statistics are kept.",
        jax="`jax.jit(f)(model, x)` works on a copy of an nnx module, and drops it; `nnx.jit` writes back.",
        remedy="`nnx.jit`; or split the model, and return its state as `has_aux`.",
        outside=_PROGRAM,
        tests=(f"{_BASICS}::test_stateful",),
    ),
    Note(
        "J3",
        "an index that is not there",
        torch="Raises IndexError, for reading and for writing.",
        jax="Reading gives the nearest that is there, `take` gives NaN (of integers an extreme number), writing by "
        "`.at[]` is dropped, and `dynamic_slice` begins earlier.",
        remedy="`checkify` with `errors=checkify.index_checks` finds it: its error's `throw()` raises.",
        outside="torch raises: there is nothing to compare with.",
        tests=(f"{_BASICS}::test_indices",),
    ),
    Note(
        "J4",
        "loading an array of another shape",
        torch="`load_state_dict` raises.",
        jax="`nnx.update` takes an array of any shape.",
        remedy="`port.load` compares every shape; or compare `jax.tree.map(jnp.shape, …)` of both states.",
        outside=_PROGRAM,
        tests=(f"{_BASICS}::test_trees",),
    ),
    Note(
        "J5",
        "two ways to make keys",
        torch="One generator moves on with each draw: no two draws are of one state.",
        jax="`split(key, n)[i]` and `fold_in(key, i)` are the same key (threefry and rbg): both from one key repeat "
        "numbers.",
        remedy="One of the two for a key, and no key twice.",
        outside=_PROGRAM,
        tests=(f"{_BASICS}::test_random_numbers",),
    ),
    Note(
        "J6",
        "whole numbers and a Python float",
        torch="`int32 + 1.0` is float32, the default dtype.",
        jax="The default float: float32, but float64 with x64 on.",
        remedy="Convert the whole numbers first, to the dtype that is meant.",
        outside="Of rounding to float32 in torch itself: a check says that it cannot judge it.",
        tests=(f"{_BASICS}::test_dtypes",),
    ),
    Note(
        "J7",
        "float64 from numpy",
        torch="Stays float64.",
        jax="Becomes float32 without x64, and nothing is said; only a dtype that is asked for gives a warning.",
        remedy='`jax.config.update("jax_enable_x64", True)` where float64 is meant, before the first array.',
        outside="Of programs without x64, which a check turns on.",
        tests=(f"{_BASICS}::test_dtypes",),
    ),
)
