"""Assemble a translation from a program: source, mapping, weights and calling convention."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from port.mapping import FROZEN, TORCH_ONLY, Mapping
from port.mapping.entry import gather
from port.translation.artifact.calling_convention import Boundary, outputs_of
from port.translation.artifact.stacked_mapping import stacked_arrays, stacked_mapping
from port.translation.artifact.weight_map import mapping_of
from port.translation.both_modes import BothRuns, Runs
from port.translation.codegen.constructors import root_arguments
from port.translation.codegen.emit import imports_of, render
from port.translation.codegen.packages import WrittenPackage, distributed
from port.translation.codegen.packages.original_files import original_definitions
from port.translation.free_dimensions import (
    length_limits,
)
from port.translation.frontend.conditions import conditions
from port.translation.frontend.input_lengths import InputLengths
from port.translation.frontend.meta_device import is_on_meta
from port.translation.frontend.precision import SINGLE
from port.translation.frontend.single_layer import prefix_of
from port.translation.ir.expr import literal, values_in
from port.translation.ir.graph import each_value, values_of
from port.translation.ir.layout import Drawn, Layout, torchs
from port.translation.ir.lowered import Assignment, LoweredGraph, Scan, each_lowered
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.symbolic_lengths import shapes_of
from port.translation.programs import ModelProgram
from port.translation.result import Translation
from port.translation.structure.cases import constants_of
from port.translation.structure.held_tensors import of_all_cases
from port.translation.structure.layer_stacks import LayerList, LayerStack, lists_of, stack_paths, with_stacks
from port.translation.structure.logical_axes import NO_AXES, LogicalAxes
from port.translation.structure.program import Program
from port.translation.structure.remat import NO_REMAT, Remat, checkpointed_classes
from port.weights.torch_arrays import as_numpy


def assembled(
    base: ModelProgram,
    *,
    name: str | None = None,
    remat: Remat = NO_REMAT,
    stacks: Collection[LayerStack] = (),
    axes: LogicalAxes = NO_AXES,
) -> tuple[Translation, Callable[..., str]]:
    """Assemble the translation of a model, without checks of its inputs.

    Args:
        base: the model's program.
        name: the name of the file that will hold the source; by default the class's, in lower case.
        remat: the classes whose activations are recomputed in the backward pass.
        stacks: the lists of layers that the source scans as one stack each.
        axes: the logical axes of the parameters.

    Returns:
        The translation, and a function that renders the source with given ``checks``.

    Raises:
        CannotScan: a list cannot be a stack; says why.
    """
    captured, initial = base.captured, base.initial
    lists = lists_of(base.program, stacks)
    program = with_stacks(base.program, stacks)
    cases = [case.runs for case in base.cases]
    file = name or _file_name(captured)
    checkpointed = checkpointed_classes(program, remat.classes)
    source = partial(
        render,
        program,
        title=_title(captured),
        weights=None if is_on_meta(captured.module) else f"{file}.safetensors",
        tables=f"{file}.tables.safetensors",
        doubled=captured.doubled,
        remat=checkpointed,
        policy=remat.policy,
        axes=axes,
    )
    root, every = program.classes[-1], list(of_all_cases(cases).values())
    weights = _weights(every, program, lists)
    noted = dict.fromkeys(note for run in every for note in run.notes)
    notes = {note: _places(every, note) for note in noted}
    if any(entry.collection == FROZEN for entry in weights.mapping.entries):
        notes["W29"] = []
    made = Translation(
        name=root.name,
        source=source(),
        arguments=root_arguments(program, imports_of(program, doubled=captured.doubled)),
        mapping=without_prefix(weights.mapping, prefix_of(captured.module)),
        boundary=_boundary(program, 0, captured.runs),
        values=weights.values,
        hidden=weights.hidden,
        tables=initial.tables,
        mixed=_is_mixed(captured),
        prefix=prefix_of(captured.module),
        lengths=_lengths(captured),
        draws=_draws(captured),
        checkpointed=tuple(checkpointed),
        stacked=stack_paths(lists),
        rules=axes.rules,
        unnamed=axes.unnamed,
        own_gradients=tuple(dict.fromkeys(name for run in every for name in run.graph.own_gradients)),
        notes=notes,
        unwritten=tuple(dict.fromkeys(item for run in every for item in run.unwritten)),
        transposes=sum(_transposes(runs[True]) for runs in cases),
        without_start=initial.unsaid,
        copied_starts=initial.copies,
        untaken=tuple(map(str, program.untaken)),
        originals=original_definitions(program),
    )
    others = tuple(_as_called(made, base, number) for number in range(1, len(cases)))
    return replace(made, others=others), source


def _as_called(made: Translation, base: ModelProgram, number: int) -> Translation:
    """Return the translation with the calling convention of another example call."""
    captured = base.cases[number]
    return replace(
        made,
        boundary=_boundary(base.program, number, captured.runs),
        lengths=_lengths(captured),
        draws=_draws(captured),
        mixed=_is_mixed(captured),
    )


def _draws(captured: BothRuns) -> dict[bool, tuple[Drawn, ...]]:
    return {training: run.draws for training, run in captured.runs.items()}


def _is_mixed(captured: BothRuns) -> bool:
    graphs = captured.graphs.values()
    return captured.doubled and any(_is_single(value) for graph in graphs for value in values_of(graph))


def packaged(made: Translation, captured: BothRuns, *, name: str | None = None) -> WrittenPackage:
    """Distribute the source of a translation over the files of a package.

    Args:
        made: the translation.
        captured: the model's runs.
        name: the name of the source file, as in `assembled`.
    """
    file = name or _file_name(captured)
    arguments = made.arguments.values()
    title = _title(captured)
    return distributed(made.source, made.originals, root=made.name, name=file, title=title, arguments=arguments)


def _file_name(captured: BothRuns) -> str:
    return type(captured.module).__name__.lower()


def _title(captured: BothRuns) -> str:
    return f"{type(captured.module).__name__}, translated from PyTorch to Flax NNX."


def _lengths(captured: BothRuns) -> InputLengths:
    """Return the input lengths that the captured runs accept, with their conditions."""
    graph = captured.runs[True].graph
    lengths = InputLengths(shapes_of(graph), unguarded=graph.unguarded)
    guards = [guard for each in captured.graphs.values() for guard in each.guards]
    guards += length_limits(captured, lengths.shapes)
    return replace(lengths, conditions=conditions(guards, lengths, lengths.of(captured.args, captured.kwargs)))


def _boundary(program: Program, number: int, runs: Runs) -> Boundary:
    """Return the calling convention of the written module in one example call."""
    root, lowered = program.classes[-1], runs[True]
    options = program.options.get("", {})
    enter = next(step for step in lowered.graph.steps if isinstance(step, ScopeEnter))
    arguments = enter.arguments.items()
    taken = {name: tuple(lowered.layouts[value] for value in each_value(tree)) for name, tree in arguments}
    return Boundary(
        inspect.signature(program.tree.root.forward),
        tuple(root.body.parameters if root.body else ()),
        tuple(lowered.layouts[value] for value in lowered.graph.inputs),
        {training: _outputs(run) for training, run in runs.items()},
        tuple(options),
        {name: layouts for name, layouts in taken.items() if layouts},
        constants_of(program.held[number]),
    )


def _transposes(lowered: LoweredGraph) -> int:
    """Count the steps that only permute axes, without those whose result is unused."""
    read = {name for expression in lowered.written.values() for name in values_in(expression)}
    count = 0
    for step in reversed(list(each_lowered(lowered.steps))):
        match step:
            case Scan():
                read |= {name for each in step.expressions for name in values_in(each)}
            case ScopeExit() if step.is_roots:
                read |= set(values_in(literal(step.results)))
            case Assignment() if step.path is not None or read & {value.name for value in each_value(step.results)}:
                count += step.is_transpose
                read |= set(values_in(step.expression))
    return count


def _places(runs: Iterable[LoweredGraph], note: str) -> list[str]:
    return sorted({str(place) for run in runs for place in run.notes.get(note, ()) if place is not None})


def _outputs(lowered: LoweredGraph) -> Any:
    leave = next(step for step in reversed(lowered.steps) if isinstance(step, ScopeExit))

    def layout(expression: Any) -> Layout:
        return lowered.returned.get(expression, torchs(0))

    return outputs_of(leave.results, layout)


@dataclass(frozen=True)
class _Weights:
    """The original's tensors in the written module: their mapping and their values."""

    mapping: Mapping
    values: dict[str, np.ndarray]
    hidden: tuple[str, ...]


def _weights(runs: Sequence[LoweredGraph], program: Program, lists: Sequence[LayerList]) -> _Weights:
    """Collect the original's tensors in the written module, stacked where lists are."""
    tree = program.tree
    mapping, hidden = mapping_of(runs, program)
    mapping = stacked_mapping(mapping, lists)
    if is_on_meta(tree.root):
        paths = stacked_arrays(dict.fromkeys(hidden.values(), np.zeros(())), lists)
        return _Weights(mapping, {}, tuple(paths))
    state = {key: as_numpy(tensor) for key, tensor in tree.root.state_dict().items() if hasattr(tensor, "shape")}
    values: dict[str, np.ndarray] = {}
    for entry in mapping.entries:
        if entry.collection != TORCH_ONLY:
            values.update(zip(entry.targets, entry(gather(entry, state)), strict=True))
    layouts = {name: run.layouts[value] for run in runs for value, name in run.graph.held.items()}
    buffers = dict(tree.root.named_buffers())
    arrays = {}
    for key, path in hidden.items():
        array = as_numpy(buffers[key])
        arrays[path] = np.transpose(array, layouts.get(key, torchs(array.ndim)).order)
    arrays = stacked_arrays(arrays, lists)
    return _Weights(mapping, {**values, **arrays}, tuple(arrays))


def without_prefix(mapping: Mapping, prefix: str) -> Mapping:
    """Return a mapping with a prefix removed from the names of its sources."""
    return Mapping(
        tuple(
            replace(entry, sources=tuple(source.removeprefix(prefix) for source in entry.sources))
            for entry in mapping.entries
        )
    )


def _is_single(value: Any) -> bool:
    """Whether a value has a precision below float64 in a float64 capture: the code fixes it."""
    return value.dtype in SINGLE
