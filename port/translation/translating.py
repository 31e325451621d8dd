"""`port.translate`: from a torch module and example inputs to its Flax source."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import PortError
from port.judging.limits import TIME_LIMIT
from port.mapping import FROZEN, TORCH_ONLY, Mapping
from port.mapping.entry import gather
from port.pairs.layers.conv_transpose import output_sizes_at_calls
from port.parity.sides.duration import time_limit_of
from port.translation.artifact.calling_convention import Boundary, outputs_of
from port.translation.artifact.weight_map import mapping_of
from port.translation.borne_out import not_borne_out
from port.translation.both_modes import BothRuns, Runs, both_runs
from port.translation.codegen.emit import formatted, render
from port.translation.codegen.length_checks import expectations
from port.translation.codegen.vendor import with_own_copies
from port.translation.free_dimensions import (
    captured_with_free_lengths,
    ends,
    with_fewer,
    without,
    without_long_conditions,
)
from port.translation.frontend.conditions import conditions
from port.translation.frontend.construction import Construction, constructed
from port.translation.frontend.construction.settings import Sized, sized
from port.translation.frontend.input_lengths import InputLengths
from port.translation.frontend.long_formulas import LONGEST
from port.translation.frontend.meta_device import WITHOUT_WEIGHTS, check_all_found, is_on_meta
from port.translation.frontend.precision import SINGLE
from port.translation.frontend.python_random import same_numbers_afterwards
from port.translation.frontend.single_layer import as_root, prefix_of
from port.translation.ir import syntax
from port.translation.ir.expr import literal, values_in
from port.translation.ir.graph import ScopeExit, each_value, values_of
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.lowered import Assignment, LoweredGraph, Scan, each_lowered
from port.translation.ir.module_tree import ModuleTree
from port.translation.ir.symbolic_lengths import shapes_of
from port.translation.result import Translation
from port.translation.structure.classes import Program, program_of
from port.translation.structure.init_inference import Initial, Seen, watched
from port.translation.structure.own_arguments import OwnArgument
from port.translation.structure.remat import checkpointed_classes
from port.translation.structure.unreachable import LostLength
from port.translation.verify import OriginalAndWritten, Proof, prove, settled
from port.weights.torch_arrays import as_numpy

if TYPE_CHECKING:
    import torch


@output_sizes_at_calls()
@same_numbers_afterwards()
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
        module: of PyTorch; it stays as it is. One on the meta device is written without its weights, and not proved.
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
    time_limit = time_limit_of(time_limit)
    run = partial(both_runs, module, args, kwargs, remat=bool(remat), check=check)
    captured = run(free=()) if static else captured_with_free_lengths(run)
    without_weights = is_on_meta(module)
    made_anew = None if construct is None else lambda: as_root(construct())
    seen = watched(captured.root, made_anew)
    construction = constructed(captured.root, made_anew)
    fixed = frozenset[OwnArgument]()
    if check and construction is not None:
        _, program, _ = _programmed(captured, run, seen, construction)
        fixed = _not_borne_out(captured, program, construction, starts_known=construct is not None)
    while True:
        captured, program, initial = _programmed(captured, run, seen, construction, fixed)
        made, source = _unchecked(captured, program, initial, name=name, remat=remat)
        made, fewer = _settle_lengths(captured, made, run, check=check and not without_weights)
        if fewer is None:
            break
        captured = fewer
    if without_weights:
        check_all_found(captured.root, made.without_start)
    lowered = captured.runs[True]
    text = source(checks=expectations(lowered.graph, lowered.layouts, made.lengths, list(made.boundary.parameters)))
    made = replace(made, source=formatted(with_own_copies(text)) if standalone else text, standalone=standalone)
    if not check or made.unwritten:
        return made
    if without_weights:
        return replace(made, proof=Proof((), unjudged=WITHOUT_WEIGHTS))
    proof = prove(captured.root, made, captured.args, captured.kwargs, time_limit=time_limit, tell=tell)
    return replace(made, proof=proof)


def _settle_lengths(
    captured: BothRuns, made: Translation, run: Callable[..., BothRuns], *, check: bool
) -> tuple[Translation, BothRuns | None]:
    """Settle which lengths a translation takes; or give the runs with fewer free, of which it is to be written anew."""
    # Nothing that is tried makes these short.
    fewer = without_long_conditions(captured, made.lengths.conditions, run, most=LONGEST)
    if fewer is not None or not check or made.unwritten or not made.lengths.names:
        return made, fewer
    sides = OriginalAndWritten(captured.root, made, captured.args, captured.kwargs)
    if sides.agree_at(sides.example):
        made = replace(made, lengths=settled(sides))
        return made, without_long_conditions(captured, made.lengths.conditions, run)
    # With numbers it may be right: a view that no formula says, a branch at the lengths that were captured.
    return made, with_fewer(captured, made.lengths.unguarded, run)


def _unchecked(
    captured: BothRuns, program: Program, initial: Initial, *, name: str | None, remat: Sequence[str] | str
) -> tuple[Translation, Callable[..., str]]:
    """A translation whose source checks none of its inputs, and what writes the source with ``checks``."""
    original = type(captured.module)
    file = name or original.__name__.lower()
    checkpointed = checkpointed_classes(program, remat)
    source = partial(
        render,
        program,
        title=f"{original.__name__} of PyTorch, in Flax NNX",
        weights=None if is_on_meta(captured.module) else f"{file}.safetensors",
        tables=f"{file}.tables.safetensors",
        doubled=captured.doubled,
        remat=checkpointed,
    )
    runs, root = captured.runs, program.classes[-1]
    weights = _weights(runs, program)
    noted = dict.fromkeys(note for run in runs.values() for note in run.notes)
    notes = {note: _places(runs, note) for note in noted}
    if any(entry.collection == FROZEN for entry in weights.mapping.entries):
        notes["W29"] = []
    return Translation(
        name=root.name,
        source=source(),
        arguments={name: syntax.source(value) for name, value in program.arguments.items()},
        mapping=without_prefix(weights.mapping, prefix_of(captured.module)),
        boundary=_boundary(program, runs),
        values=weights.values,
        hidden=weights.hidden,
        tables=initial.tables,
        mixed=captured.doubled and any(_is_single(v) for graph in captured.graphs.values() for v in values_of(graph)),
        prefix=prefix_of(captured.module),
        lengths=_lengths(captured),
        draws={training: run.draws for training, run in runs.items()},
        checkpointed=tuple(checkpointed),
        own_gradients=tuple(dict.fromkeys(name for run in runs.values() for name in run.graph.own_gradients)),
        notes=notes,
        unwritten=tuple(dict.fromkeys(item for run in runs.values() for item in run.unwritten)),
        transposes=_transposes(runs[True]),
        without_start=initial.unsaid,
        copied_starts=initial.copies,
    ), source


def _lengths(captured: BothRuns) -> InputLengths:
    """What the captured runs say of the lengths of the inputs."""
    graph = captured.runs[True].graph
    lengths = InputLengths(shapes_of(graph), unguarded=graph.unguarded)
    guards = [guard for each in captured.graphs.values() for guard in each.guards]
    guards += ends(captured, lengths.shapes)
    return replace(lengths, conditions=conditions(guards, lengths, lengths.of(captured.args, captured.kwargs)))


def _programmed(
    captured: BothRuns,
    run: Callable[..., BothRuns],
    seen: Seen,
    construction: Construction | None,
    fixed: frozenset[OwnArgument] = frozenset(),
) -> tuple[BothRuns, Program, Initial]:
    """Both runs, and the program that says them, with as many free lengths as source can say."""
    while True:
        tree = ModuleTree(captured.root, captured.layers)
        folded = {path for run in captured.runs.values() for path in run.folds}
        initial = Initial(seen, captured.layers, folded)
        try:
            return captured, program_of(captured.runs, tree, initial, construction, fixed), initial
        except LostLength as error:
            # A length that the code needs where no array shows it: what it is made of cannot stay free.
            fewer = without(captured, error.formula, run)
            if fewer is None:
                raise
            captured = fewer


def _not_borne_out(
    captured: BothRuns, program: Program, construction: Construction, *, starts_known: bool
) -> frozenset[OwnArgument]:
    """The arguments of constructors that are written as their values: nothing shows that others may be given."""

    def written(other: Sized) -> Program | None:
        try:
            module = other.construct_as(captured.root)
            run = partial(both_runs, module, other.args, other.kwargs, check=False)
            again = run(free=captured.free)
            seen = watched(again.root, other.construct if starts_known else None)
            return _programmed(again, run, seen, constructed(again.root, other.construct))[1]
        except (PortError, AssertionError):
            return None

    model = sized(construction, captured.root, captured.args, captured.kwargs)
    return frozenset(not_borne_out(program, model, written))


def _boundary(program: Program, runs: Runs) -> Boundary:
    """What goes into the written module, and comes out of it."""
    root, lowered = program.classes[-1], runs[True]
    return Boundary(
        inspect.signature(program.tree.root.forward),
        tuple(root.body.parameters if root.body else ()),
        tuple(lowered.layouts[value] for value in lowered.graph.inputs),
        {training: _outputs(run) for training, run in runs.items()},
    )


def _transposes(lowered: LoweredGraph) -> int:
    """How many steps only move axes; one that nothing reads is not written, and not counted."""
    read = {name for expression in lowered.written.values() for name in values_in(expression)}
    count = 0
    for step in reversed(list(each_lowered(lowered.steps))):
        match step:
            case Scan():
                read |= {name for each in step.expressions for name in values_in(each)}
            case ScopeExit(path=""):
                read |= set(values_in(literal(step.results)))
            case Assignment() if step.path is not None or read & {value.name for value in each_value(step.results)}:
                count += step.is_transpose
                read |= set(values_in(step.expression))
    return count


def _places(runs: Runs, note: str) -> list[str]:
    return sorted({str(place) for run in runs.values() for place in run.notes.get(note, ()) if place is not None})


def _outputs(lowered: LoweredGraph) -> Any:
    leave = next(step for step in reversed(lowered.steps) if isinstance(step, ScopeExit))

    def layout(expression: Any) -> Layout:
        return lowered.returned.get(expression, torchs(0))

    return outputs_of(leave.results, layout)


@dataclass(frozen=True)
class _Weights:
    """The original's tensors in the written module: where each goes, and what it holds there."""

    mapping: Mapping
    values: dict[str, np.ndarray]
    hidden: tuple[str, ...]


def _weights(runs: Runs, program: Program) -> _Weights:
    """The original's tensors in the written module."""
    tree = program.tree
    mapping, hidden = mapping_of(runs[True], program)
    if is_on_meta(tree.root):
        return _Weights(mapping, {}, tuple(hidden.values()))
    state = {key: as_numpy(tensor) for key, tensor in tree.root.state_dict().items() if hasattr(tensor, "shape")}
    values: dict[str, np.ndarray] = {}
    for entry in mapping.entries:
        if entry.collection != TORCH_ONLY:
            values.update(zip(entry.targets, entry(gather(entry, state)), strict=True))
    layouts = {name: run.layouts[value] for run in runs.values() for value, name in run.graph.held.items()}
    buffers = dict(tree.root.named_buffers())
    for key, path in hidden.items():
        array = as_numpy(buffers[key])
        values[path] = np.transpose(array, layouts.get(key, torchs(array.ndim)).order)
    return _Weights(mapping, values, tuple(hidden.values()))


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
    return value.dtype in SINGLE
