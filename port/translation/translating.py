"""`port.translate`: from a torch module and example inputs to its Flax source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from port.mapping import TORCH_ONLY, Mapping
from port.mapping.entry import gather
from port.parity.sides.duration import TIME_LIMIT, time_limit_of
from port.translation.both_runs import BothRuns, Runs, both_runs
from port.translation.boundary import Boundary, outputs_of
from port.translation.carrying import mapping_of
from port.translation.checkpointing import Numbers, checkpointed_classes
from port.translation.classes import Program, program_of
from port.translation.code import literal, values_in
from port.translation.conditions import conditions
from port.translation.expectations import expectations
from port.translation.freeing import (
    captured_with_free_lengths,
    ends,
    with_fewer,
    without,
    without_long_conditions,
)
from port.translation.graph import Leave, each_value, values_of
from port.translation.initial import Initial, Seen, watched
from port.translation.input_lengths import InputLengths
from port.translation.layouts import Layout, torchs
from port.translation.long_lengths import LONGEST
from port.translation.placed import Assignment, Placed, Scan, each_placed
from port.translation.proof import Sides, prove, settled
from port.translation.rendering import formatted, render
from port.translation.scopes import LostLength
from port.translation.standalone import with_own_copies
from port.translation.symbols import shapes_of
from port.translation.translation import Translation
from port.translation.tree import ModuleTree

if TYPE_CHECKING:
    import torch


def translate(
    module: torch.nn.Module,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    *,
    name: str | None = None,
    static: bool = False,
    check: bool = True,
    construct: Callable[[], torch.nn.Module] | None = None,
    remat: Sequence[str] | str = (),
    standalone: bool = False,
    time_limit: float = TIME_LIMIT,
    tell: Callable[[str], Any] | None = None,
) -> Translation:
    """Write the Flax module that a person would have written, and prove that it is the same.

    Parameters that torch does not train (``requires_grad=False``) are `port.nn.Frozen`, which ``nnx.Param`` leaves out.

    Args:
        module: of PyTorch; it stays as it is.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: those given by name.
        name: of the file that the source is for; by default the class's, in lower case.
        static: whether all lengths of the inputs are fixed at the example's. By default those stay free that the
            original takes others for, which is found out by running it. What is fixed is checked where it comes in.
        construct: makes the module anew, as its user does (``lambda: Net(width=64)``). It is watched, twice, and a
            new written module starts as what it makes. Without it, a class whose constructor takes no arguments is
            constructed so; otherwise layers start as torch's own do, and a parameter or a buffer of a class of one's
            own raises `NoInitialValue` in a new module, which `load` fills. The module's own values are never looked
            at for this: they may be a checkpoint's.
        check: whether both sides are compared in float64: outputs, gradients, buffers.
        remat: names of the original's classes whose activations are computed again in the backward pass
            (``nnx.remat``, gradient checkpointing): less memory for one more forward pass of them.
        standalone: whether what the source takes from ``port`` is copied into it, so that it needs only JAX, Flax,
            safetensors and numpy.
        time_limit: seconds that comparing both sides may take, as estimated beforehand; what would take longer is
            compared at smaller lengths, or not at all, and the proof says so.
        tell: is told beforehand how long that takes, if it is long.

    Returns:
        the source, the module with its weights, the mapping, the notes and the proof.

    Raises:
        UsageError: no module, or inputs that it does not take; one whose copy computes something else, or that hides a
            method of ``torch.nn.Module``; in ``remat``, no class that is written.
        NoPair: a module that torch.export cannot capture; one that computes with state that is neither a parameter nor
            a buffer, as layers in a plain list are; says where and what to do.
    """
    from port.translation.alone import as_root

    time_limit = time_limit_of(time_limit)
    run = partial(both_runs, module, args, kwargs, remat=bool(remat))
    captured = run(free=()) if static else captured_with_free_lengths(run)
    seen = watched(captured.root, None if construct is None else lambda: as_root(construct()))
    while True:
        captured, program, initial = _programmed(captured, run, seen)
        made, source = _unchecked(captured, program, initial, name=name, remat=remat)
        fewer = _settle_lengths(captured, made, run, check=check)
        if fewer is None:
            break
        captured = fewer
    placed = captured.runs[True]
    text = source(checks=expectations(placed.graph, placed.layouts, made.lengths, list(made.boundary.parameters)))
    # A new one, since the code of the source without checks is kept in the other.
    made = replace(made, source=formatted(with_own_copies(text)) if standalone else text, standalone=standalone)
    if check and not made.unwritten:
        made.proof = prove(captured.root, made, captured.args, captured.kwargs, time_limit=time_limit, tell=tell)
    return made


def _settle_lengths(
    captured: BothRuns, made: Translation, run: Callable[..., BothRuns], *, check: bool
) -> BothRuns | None:
    """Settle which lengths a translation takes; or give the runs with fewer free, of which it is to be written anew."""
    # Nothing that is tried makes these short.
    fewer = without_long_conditions(captured, made.lengths.conditions, run, most=LONGEST)
    if fewer is not None or not check or made.unwritten or not made.lengths.names:
        return fewer
    sides = Sides(captured.root, made, captured.args, captured.kwargs)
    if sides.agree_at(sides.example):
        made.lengths = settled(sides)
        return without_long_conditions(captured, made.lengths.conditions, run)
    # With numbers it may be right: a view that no formula says, a branch at the lengths that were captured.
    return with_fewer(captured, made.lengths.unguarded, run)


def _unchecked(
    captured: BothRuns, program: Program, initial: Initial, *, name: str | None, remat: Sequence[str] | str
) -> tuple[Translation, Callable[..., str]]:
    """A translation whose source checks none of its inputs, and what writes the source with ``checks``."""
    from port.translation.alone import prefix_of

    doubled, graphs, runs = captured.doubled, captured.graphs, captured.runs
    original = type(captured.module)
    file = name or original.__name__.lower()
    checkpointed = checkpointed_classes(program, remat)
    source = partial(
        render,
        program,
        title=f"{original.__name__} of PyTorch, in Flax NNX",
        weights=f"{file}.safetensors",
        tables=f"{file}.tables.safetensors",
        doubled=doubled,
        remat=checkpointed,
    )
    made = _written(program, runs, source(), remat=checkpointed)
    made.tables, made.without_start, made.copied_starts = initial.tables, initial.unsaid, initial.copies
    made.prefix = prefix_of(captured.module)
    _fill(made, runs, program.tree)
    if made.frozen:
        made.notes["W29"] = []
    made.mixed = doubled and any(_is_single(value) for graph in graphs.values() for value in values_of(graph))
    guards = [guard for graph in graphs.values() for guard in graph.guards]
    example = made.lengths.of(captured.args, captured.kwargs)
    guards += ends(captured, made.lengths.shapes)
    made.lengths = replace(made.lengths, conditions=conditions(guards, made.lengths, example))
    return made, source


def _programmed(captured: BothRuns, run: Callable[..., BothRuns], seen: Seen) -> tuple[BothRuns, Program, Initial]:
    """Both runs, and the program that says them, with as many free lengths as source can say."""
    while True:
        tree = ModuleTree(captured.root, captured.layers)
        folded = {path for run in captured.runs.values() for path in run.folds}
        initial = Initial(seen, captured.layers, folded)
        try:
            return captured, program_of(captured.runs, tree, initial), initial
        except LostLength as error:
            # A length that the code needs where no array shows it: what it is made of cannot stay free.
            fewer = without(captured, error.formula, run)
            if fewer is None:
                raise
            captured = fewer


def _written(program: Program, runs: Runs, source: str, *, remat: dict[str, Numbers]) -> Translation:
    """The source, and what is known of it."""
    root = program.classes[-1]
    signature = inspect.signature(program.tree.root.forward)
    placed = runs[True]
    boundary = Boundary(
        signature,
        tuple(root.body.parameters if root.body else ()),
        tuple(placed.layouts[value] for value in placed.graph.inputs),
        {training: _outputs(run) for training, run in runs.items()},
    )
    noted = dict.fromkeys(note for run in runs.values() for note in run.notes)
    return Translation(
        root.name,
        source,
        Mapping(()),
        boundary,
        notes={note: _places(runs, note) for note in noted},
        unwritten=list(dict.fromkeys(item for run in runs.values() for item in run.unwritten)),
        draws={training: run.draws for training, run in runs.items()},
        transposes=_transposes(placed),
        checkpointed=tuple(remat),
        own_gradients=tuple(dict.fromkeys(name for run in runs.values() for name in run.graph.own_gradients)),
        lengths=InputLengths(shapes_of(placed.graph), unguarded=placed.graph.unguarded),
    )


def _transposes(placed: Placed) -> int:
    """How many steps only move axes; one that nothing reads is not written, and not counted."""
    read = {name for expression in placed.written.values() for name in values_in(expression)}
    count = 0
    for step in reversed(list(each_placed(placed.steps))):
        match step:
            case Scan():
                read |= {name for each in step.expressions for name in values_in(each)}
            case Leave(path=""):
                read |= set(values_in(literal(step.results)))
            case Assignment() if step.path is not None or read & {value.name for value in each_value(step.results)}:
                count += step.is_transpose
                read |= set(values_in(step.expression))
    return count


def _places(runs: Runs, note: str) -> list[str]:
    return sorted({str(place) for run in runs.values() for place in run.notes.get(note, ()) if place is not None})


def _outputs(placed: Placed) -> Any:
    leave = next(step for step in reversed(placed.steps) if isinstance(step, Leave))

    def layout(expression: Any) -> Layout:
        return placed.returned.get(ast.dump(expression), torchs(0))

    return outputs_of(leave.results, layout)


def _fill(made: Translation, runs: Runs, tree: ModuleTree) -> None:
    """Its mapping, and what its variables hold."""
    from port.weights.torch import as_numpy

    mapping, hidden = mapping_of(runs[True], tree, made.variables())
    state = {key: as_numpy(tensor) for key, tensor in tree.root.state_dict().items() if hasattr(tensor, "shape")}
    for entry in mapping.entries:
        if entry.collection != TORCH_ONLY:
            made.values.update(zip(entry.targets, entry(gather(entry, state)), strict=True))
    layouts = {name: run.layouts[value] for run in runs.values() for value, name in run.graph.held.items()}
    buffers = dict(tree.root.named_buffers())
    for key, path in hidden.items():
        array = as_numpy(buffers[key])
        made.values[path] = np.transpose(array, layouts.get(key, torchs(array.ndim)).order)
    made.mapping, made.hidden = without_prefix(mapping, made.prefix), tuple(hidden.values())


def without_prefix(mapping: Mapping, prefix: str) -> Mapping:
    """A mapping whose sources have lost what stands before their names."""
    return Mapping(
        tuple(
            replace(entry, sources=tuple(source.removeprefix(prefix) for source in entry.sources))
            for entry in mapping.entries
        )
    )


def _is_single(value: Any) -> bool:
    """Whether the model's own code computes it in float32, whatever the model's precision is."""
    return value.dtype in ("float32", "complex64", "bfloat16", "float16")
