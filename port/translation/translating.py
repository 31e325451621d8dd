"""`port.translate`: from a torch module and example inputs to its Flax source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from port.mapping import TORCH_ONLY, Mapping
from port.mapping.entry import gather
from port.translation.both_runs import Runs, both_runs
from port.translation.boundary import Boundary, outputs_of
from port.translation.carrying import mapping_of
from port.translation.checkpointing import Numbers, checkpointed_classes
from port.translation.classes import Program, program_of
from port.translation.code import literal, values_in
from port.translation.graph import Leave, each_value, values_of
from port.translation.initial import initial_values
from port.translation.layouts import Layout, torchs
from port.translation.placed import Assignment, Placed
from port.translation.proof import prove
from port.translation.rendering import formatted, render
from port.translation.standalone import with_own_copies
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
    dynamic: bool = False,
    check: bool = True,
    construct: Callable[[], torch.nn.Module] | None = None,
    remat: Sequence[str] | str = (),
    standalone: bool = False,
) -> Translation:
    """Write the Flax module that a person would have written, and prove that it is the same.

    Args:
        module: of PyTorch; it stays as it is.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: those given by name.
        name: of the file that the source is for; by default the class's, in lower case.
        dynamic: whether all lengths of the inputs stay free, not only the first axis's.
        construct: makes the module anew, as its user does: then it is looked at how its parameters are drawn, and the
            written module draws its own so. Without it, they are drawn as torch's layers draw them.
        check: whether both sides are compared in float64: outputs, gradients, buffers.
        remat: names of the original's classes whose activations are computed again in the backward pass
            (``nnx.remat``, gradient checkpointing): less memory for one more forward pass of them.
        standalone: whether what the source takes from ``port`` is copied into it, so that it needs only JAX, Flax,
            safetensors and numpy.

    Returns:
        the source, the module with its weights, the mapping, the notes and the proof.

    Raises:
        UsageError: no module, or inputs that it does not take; in ``remat``, no class that is written.
        NoPair: a module that torch.export cannot capture; says where and what to do.
    """
    from port.translation.alone import as_root, prefix_of

    captured = both_runs(module, args, kwargs, dynamic=dynamic)
    doubled, graphs, runs = captured.doubled, captured.graphs, captured.runs
    tree = ModuleTree(captured.root, captured.layers)
    initial = None if construct is None else initial_values(lambda: as_root(construct()), captured.layers)
    program = program_of(runs, tree, initial)
    made = _written(module, program, runs, name=name, doubled=doubled, remat=checkpointed_classes(program, remat))
    if standalone:
        made.source, made.standalone = formatted(with_own_copies(made.source)), True
    made.prefix = prefix_of(module)
    _fill(made, runs, tree)
    made.mixed = doubled and any(_is_single(value) for graph in graphs.values() for value in values_of(graph))
    made.shapes = tuple(value.shape or () for value in graphs[True].inputs)
    made.drawn_otherwise = tuple(initial.unknown) if initial is not None else ()
    if check and not made.unwritten:
        made.proof = prove(captured.root, made, captured.args, captured.kwargs)
    return made


def _written(
    module: Any,
    program: Program,
    runs: Runs,
    *,
    name: str | None,
    doubled: bool,
    remat: dict[str, Numbers],
) -> Translation:
    """The source, and what is known of it."""
    root = program.classes[-1]
    file = name or type(module).__name__.lower()
    title = f"{type(module).__name__} of PyTorch, in Flax NNX"
    source = render(program, title=title, weights=f"{file}.safetensors", doubled=doubled, remat=remat)
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
    )


def _transposes(placed: Placed) -> int:
    """How many steps only move axes; one that nothing reads is not written, and not counted."""
    read = {name for expression in placed.written.values() for name in values_in(expression)}
    count = 0
    for step in reversed(placed.steps):
        match step:
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
