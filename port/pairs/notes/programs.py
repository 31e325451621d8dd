"""Arrays and programs: how JAX's tracing, indexing, pytrees and keys differ from PyTorch's eager code."""

from __future__ import annotations

from port.pairs.notes.difference import Note

_BASICS = "tests/side_by_side/test_basics.py"
_PROGRAM = "It concerns the program around a model; a check compares models."

NOTES = (
    Note(
        "J1",
        "a value that a compiled function closes over",
        torch="`torch.compile` guards on such values, and retraces when they change.",
        jax="`jit` reads it once, at trace time: the value becomes a constant of the program.",
        remedy="Pass it as an argument.",
        outside=_PROGRAM,
        tests=(f"{_BASICS}::test_traces",),
    ),
    Note(
        "J2",
        "a compiled function that writes to its model",
        torch="Compiled or not, it changes the caller's model: running statistics are updated.",
        jax="`jax.jit(f)(model, x)` changes a copy of an nnx module, which is lost; `nnx.jit` writes changes back.",
        remedy="`nnx.jit`; or split the model, and return its state as `has_aux`.",
        outside=_PROGRAM,
        tests=(f"{_BASICS}::test_stateful",),
    ),
    Note(
        "J3",
        "an index out of range",
        torch="Raises IndexError, for reading and for writing.",
        jax="Reading returns the nearest element, `take` NaN (for integers an extreme value), writing with `.at[]` is "
        "dropped, and `dynamic_slice` starts earlier.",
        remedy="`checkify` with `errors=checkify.index_checks` finds it: its error's `throw()` raises.",
        outside="torch raises, so there is nothing to compare.",
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
        torch="A generator advances with each draw: no two draws use the same state.",
        jax="`split(key, n)[i]` and `fold_in(key, i)` are the same key (threefry and rbg): using both on one key "
        "repeats numbers.",
        remedy="Use only one of the two on a key, and no key twice.",
        outside=_PROGRAM,
        tests=(f"{_BASICS}::test_random_numbers",),
    ),
    Note(
        "J6",
        "integers and a Python float",
        torch="`int32 + 1.0` is float32, the default dtype.",
        jax="The default float: float32, but float64 with x64 on.",
        remedy="Convert the integers to the intended dtype first.",
        outside="torch itself rounds to float32; a check reports that it cannot judge this.",
        tests=(f"{_BASICS}::test_dtypes",),
    ),
    Note(
        "J7",
        "float64 from numpy",
        torch="Stays float64.",
        jax="Silently becomes float32 without x64; only an explicit dtype gives a warning.",
        remedy='`jax.config.update("jax_enable_x64", True)` before the first array, if float64 is intended.',
        outside="It concerns programs without x64, which a check turns on.",
        tests=(f"{_BASICS}::test_dtypes",),
    ),
)
