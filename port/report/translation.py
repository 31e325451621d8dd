"""Write the text of report.md: what a translation did."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from port.mapping import TORCH_ONLY, Entry
from port.mapping.gathered import gathered
from port.mapping.patterns import PatternRow, counts, rolled
from port.moves import EachBranch, Move, Stack
from port.pairs.notes import note
from port.report.frozen import frozen_count, frozen_places
from port.report.original_places import nearest, place_of
from port.translation import Translation
from port.translation.folder import Original
from port.translation.ir.layout import Layout


def translation_report(
    translation: Translation,
    module: Any,
    *,
    name: str,
    original: Original | None = None,
    package: str = "",
    checkpoint: str = "checkpoint.safetensors",
) -> str:
    """Return the text of report.md.

    Args:
        translation: the translation to describe.
        module: the torch module that was translated.
        name: the name of the written Flax module.
        original: how the generated test rebuilds the original.
        package: the name under which it is imported, if it is a package.
        checkpoint: the file that fills the model, if it was translated without its weights.
    """
    boundary = translation.boundary
    names = _input_names(translation)
    return str(
        _template().render(
            name=name,
            module=package or name,
            files=dict(sorted(_files(translation).items())),
            moved=translation.package.remarks if translation.package is not None else (),
            cls=translation.name,
            original=original,
            made=_made(translation),
            has_weights=translation.has_weights,
            checkpoint=json.dumps(checkpoint, ensure_ascii=False),
            proof=translation.proof,
            transposes=translation.transposes,
            unwritten=[{"what": row.what, "why": row.why, "place": place_of(row)} for row in translation.unwritten],
            call=_call(translation, names),
            inputs=[
                _input(*parameter, translation)
                for parameter in zip(names, boundary.inputs, translation.lengths.shapes, strict=True)
            ],
            results=_all_results(boundary.outputs),
            modules=_modules(translation, module),
            left_out=_left_out(translation, module),
            tables=f"{name}.tables.safetensors" if translation.tables else "",
            without_start=by_reason(translation.without_start),
            copied_starts=translation.copied_starts,
            own_gradients=[f"`{name}`" for name in translation.own_gradients],
            frozen=[f"`{name}`" for name in frozen_places(translation)],
            frozen_count=frozen_count(translation),
            all_frozen=not translation.trained,
            hidden=translation.hidden,
            checkpointed=[f"`{name}`" for name in translation.checkpointed],
            stacked=[f"`{path}`" for path in translation.stacked],
            apart=translation.apart,
            unnamed=[f"`{path}`" for path in translation.unnamed],
            standalone=translation.standalone,
            lengths=_lengths(translation, names),
            arguments=translation.settings.lines,
            untaken=translation.untaken,
            notes=[
                {"note": note(id), "places": nearest(places)}
                for id, places in sorted(translation.notes.items(), key=lambda item: note_order(item[0]))
            ],
        )
    )


# %% How to build it


@dataclass(frozen=True)
class _Made:
    """An expression that builds a new model.

    Attributes:
        expression: ``Net(NetConfig(width=4), rngs=nnx.Rngs(0))``.
        names: the names from the source that it uses.
    """

    expression: str
    names: list[str]


def _made(translation: Translation) -> _Made:
    """Return the constructor call with this model's arguments."""
    rngs = "rngs=nnx.Rngs(0)"
    arguments = [f"{name}={text.replace('**options', rngs)}" for name, text in translation.arguments.items()]
    expression = f"{translation.name}({', '.join([*arguments, rngs])})"
    defined = {
        one.name for one in ast.parse(translation.source).body if isinstance(one, ast.ClassDef | ast.FunctionDef)
    }
    read = [one.id for one in ast.walk(ast.parse(expression)) if isinstance(one, ast.Name)]
    return _Made(expression, [name for name in dict.fromkeys(read) if name in defined])


# %% What went where


def _modules(translation: Translation, root: Any) -> list[dict[str, Any]]:
    twins = _flax_classes(translation)
    rows: dict[tuple[str, str], list[Entry]] = {}
    firsts: dict[str, str] = {}  # of the modules that one path covers
    for entry in translation.mapping.entries:
        if entry.collection != TORCH_ONLY:
            short = _of_all_layers(entry)
            key = (short.sources[0].rpartition(".")[0], short.targets[0].rpartition(".")[0])
            firsts.setdefault(key[0], entry.sources[0].rpartition(".")[0])
            rows.setdefault(key, []).append(short)
    parts = dict(root.named_modules(remove_duplicate=False))
    paired = [
        PatternRow(
            (path, target),
            (_class(parts.get(firsts[path])), twins.get(target, ""), "; ".join(map(_moved, entries))),
        )
        for (path, target), entries in rows.items()
    ]
    return [
        {
            "path": row.names[0] or "(the module itself)",
            "cls": row.rest[0],
            "target": row.names[1] or "(the module itself)",
            "twin": row.rest[1],
            "tensors": row.rest[2] + (f" (for each {counts(row.each)})" if row.each else ""),
        }
        for row in rolled(paired)
    ]


def _of_all_layers(entry: Entry) -> Entry:
    """Return a stacked entry under the names of one layer: ``layers.*.weight``."""
    rounds = gathered(entry.sources)
    if rounds is None or not any(isinstance(node, Stack) for move in entry.moves for node in _all_moves(move)):
        return entry
    return replace(entry, sources=tuple(name.replace(f"{{{rounds.letter}}}", "*") for name in rounds.names))


def _all_moves(move: Move) -> list[Move]:
    inside = [each for branch in move.branches for each in branch.moves] if isinstance(move, EachBranch) else []
    return [move, *(each for inner in inside for each in _all_moves(inner))]


def _flax_classes(translation: Translation) -> dict[str, str]:
    from flax import nnx

    built = nnx.eval_shape(lambda: translation.constructor(rngs=nnx.Rngs(0)))
    return {".".join(map(str, path)): type(node).__name__ for path, node in nnx.iter_graph(built)}


def _class(part: Any) -> str:
    return "" if part is None else type(part).__qualname__


def _moved(entry: Entry) -> str:
    """Return ``weight → kernel [permute(2, 3, 1, 0)]``; further names of the same tensor appear with their paths."""
    sources = [entry.sources[0].rpartition(".")[2], *entry.sources[1:]]
    targets = [entry.targets[0].rpartition(".")[2], *(target.rpartition(".")[2] for target in entry.targets[1:])]
    moves = ", ".join(map(str, entry.moves))
    if sources == targets and not moves:
        return sources[0]
    return f"{', '.join(sources)} → {', '.join(targets)}" + (f" [{moves}]" if moves else "")


def _left_out(translation: Translation, root: Any) -> list[str]:
    parameters = dict(root.named_parameters(remove_duplicate=False))
    return [
        f"`{name}`: "
        + ("a parameter that nothing reads" if name in parameters else "a buffer that Flax does not have")
        + "; a checkpoint converted back keeps the original's"
        for entry in translation.mapping.entries
        if entry.collection == TORCH_ONLY
        for name in entry.sources
    ]


def _files(translation: Translation) -> dict[str, list[str]]:
    """Return the files of a package, each with the names it defines."""
    if translation.package is None:
        return {}
    files = translation.package.original_files
    defined = {file: ast.parse(text).body for file, text in files.items()}
    kinds = ast.ClassDef | ast.FunctionDef
    return {file: [f"`{n.name}`" for n in nodes if isinstance(n, kinds)] for file, nodes in defined.items()}


# %% How to call it


def _input_names(translation: Translation) -> list[str]:
    """Return names for the input tensors: the parameters' names, where each parameter is one tensor."""
    parameters = list(translation.boundary.signature.parameters.values())
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]
    count = len(translation.boundary.inputs)
    if len(plain) == len(parameters) and count <= len(plain) and set(plain[:count]) >= set(translation.boundary.needed):
        return plain[:count]
    return [f"tensor {number}" for number in range(count)]


def _call(translation: Translation, names: list[str]) -> str:
    parameters = translation.boundary.needed
    layouts = dict(zip(names, translation.boundary.inputs, strict=True))
    if not all(name in layouts for name in parameters):
        return f"y = model({', '.join(parameters)})"
    arguments = [
        name if layouts[name].is_torchs else f"jnp.transpose({name}, {layouts[name].order})" for name in parameters
    ]
    return f"y = model({', '.join(arguments)})" + ("" if arguments == list(parameters) else "  # from PyTorch's axes")


def _input(name: str, layout: Layout, shape: tuple[int | str, ...], translation: Translation) -> dict[str, str]:
    carried = tuple(shape[axis] for axis in layout.order)
    parameters = translation.boundary.parameters
    return {
        "name": name,
        "shape": f"({', '.join(map(str, shape))}) in PyTorch",
        "axes": "" if layout.is_torchs else f", ({', '.join(map(str, carried))}) in JAX",
        "unused": "" if name in parameters or name.startswith("tensor ") else "; unused, and not an argument in JAX",
    }


def _all_results(outputs: dict[bool, Any]) -> list[str]:
    """Return the results of both modes, marked by mode where they differ."""
    evaluation, training = (_results(outputs.get(mode)) for mode in (False, True))
    if evaluation == training:
        return evaluation
    return [f"{line} (evaluation)" for line in evaluation] + [f"{line} (training)" for line in training]


def _results(outputs: Any, name: str = "the result") -> list[str]:
    match outputs:
        case Layout() if not outputs.is_torchs:
            back = tuple(outputs.order.index(axis) for axis in range(outputs.rank))
            return [
                f"{name}: has PyTorch's axes in the order {outputs.order}; `jnp.transpose(y, {back})` brings it back"
            ]
        case Layout():
            return [f"{name}: as PyTorch's"]
        case dict():
            return [line for key, item in outputs.items() for line in _results(item, f"{name}[{key!r}]")]
        case tuple() | list():
            return [line for number, item in enumerate(outputs) for line in _results(item, f"{name}[{number}]")]
    return []


def _lengths(translation: Translation, names: list[str]) -> list[str]:
    lines = []
    for name, shape in zip(names, translation.lengths.shapes, strict=True):
        free = [f"axis {axis} (`{size}`)" for axis, size in enumerate(shape) if not isinstance(size, int)]
        fixed = [f"axis {axis} at {size}" for axis, size in enumerate(shape) if isinstance(size, int)]
        if free:
            lines.append(f"`{name}`: free along {', '.join(free)}")
        if fixed:
            lines.append(f"`{name}`: **fixed** along {', '.join(fixed)}; another length is refused")
    lines += [f"`{condition}`, which is checked" for condition in translation.lengths.conditions]
    tried = ["; ".join(f"{name} = {size}" for name, size in sizes.items()) for sizes in translation.lengths.tried]
    lines += [f"compared at other lengths as well: {text}" for text in tried]
    return lines or ["no tensor goes in"]


# %% Words


def by_reason(reasons: dict[str, str]) -> dict[str, list[str]]:
    """Group names by their reason: reason → names."""
    found: dict[str, list[str]] = {}
    for name, why in reasons.items():
        found.setdefault(why, []).append(name)
    return found


def note_order(id: str) -> tuple[str, int]:
    """Sort key for note ids: W9 comes before W10."""
    return id[:1], int(id[1:]) if id[1:].isdigit() else 0


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["cell"] = lambda text: " ".join(str(text).split()).replace("|", "\\|")
    environment.filters["line"] = lambda text: " ".join(str(text).split())
    environment.filters["code"] = lambda text: text if text.startswith("(") else f"`{text}`"
    return environment.from_string((files("port.report") / "translation.md.jinja").read_text("utf-8"))
