"""Translation metadata in the safetensors header: the calling convention of the written module.

It lies in the file's own metadata, which every reader of safetensors gives, beside what any converted file says there:
the mapping, and each tensor's fingerprint. So the files prove themselves again, and go back to torch.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import BrokenWeights, WeightsMismatch
from port.mapping import TORCH_ONLY, Mapping
from port.translation.artifact.calling_convention import Boundary
from port.translation.frontend import input_lengths
from port.translation.ir.layout import Drawn, Folded, Layout
from port.weights.fingerprints import HASH, fingerprint
from port.weights.record import ConversionRecord, record_of
from port.weights.safetensors_files import open_safetensors

if TYPE_CHECKING:
    from port.translation.artifact.written_module import WrittenModule  # it loads the source, for which it needs jax

KEY = "port.translation"
MODES = (False, True)  # evaluation, training


@dataclass(frozen=True)
class RememberedCall:
    """What stands in the file of an example call.

    Attributes:
        parameters: those that the written ``__call__`` takes, with their stars.
        inputs: the layouts of the tensors that go in.
        outputs: by whether it is of training, the tree of results, with layouts for arrays.
        draws: by the same, the layouts of what is drawn at random.
        mixed: whether the original computes something in float32 whatever its precision is.
        lengths: of the tensors that go in.
        options: those of the parameters that have the original's default.
        layouts: those of the tensors that each of the original's parameters is given.
        static: constants that are given, by the names of the original's parameters.
    """

    parameters: tuple[str, ...]
    inputs: tuple[Layout, ...]
    outputs: dict[bool, Any]
    draws: dict[bool, tuple[Drawn, ...]]
    mixed: bool
    lengths: input_lengths.InputLengths
    options: tuple[str, ...]
    layouts: dict[str, tuple[Layout, ...]]
    static: dict[str, Any]

    def boundary(self, signature: inspect.Signature) -> Boundary:
        """What goes in and comes out, where the original's ``forward`` has this signature."""
        return Boundary(signature, self.parameters, self.inputs, self.outputs, self.options, self.layouts, self.static)


@dataclass(frozen=True)
class Remembered:
    """What stands in the file.

    Attributes:
        name: of the root's class.
        calls: the example calls.
        fingerprints: of the original's tensors, and by Flax's paths of what no state dict holds.
        hash: of the fingerprints.
        checkpointed: names of the written classes whose calls stand under ``nnx.remat``.
        stacked: Flax's paths of the stacks of layers.
    """

    name: str
    calls: tuple[RememberedCall, ...]
    fingerprints: dict[str, str]
    hash: str
    checkpointed: tuple[str, ...] = ()
    stacked: tuple[str, ...] = ()


def metadata_of(translation: WrittenModule) -> dict[str, str]:
    """The metadata of a translation's weights file: what it is of, and what its model is constructed with."""
    told = {
        "class": translation.name,
        "checkpointed": list(translation.checkpointed),
        "stacked": list(translation.stacked),
        **_told(translation),
        "others": list(map(_told, translation.others)),
    }
    record = ConversionRecord(translation.mapping, fingerprints(translation.mapping, translation.values))
    arguments = translation.said_arguments.metadata()
    return {"format": "flax", KEY: json.dumps(told, ensure_ascii=False), **arguments, **record.metadata()}


def _told(translation: WrittenModule) -> dict[str, Any]:
    """What is remembered of an example call."""
    boundary = translation.boundary
    return {
        "parameters": list(boundary.parameters),
        "inputs": [list(layout.order) for layout in boundary.inputs],
        "outputs": [_written(boundary.outputs.get(training)) for training in MODES],
        "draws": [[_orders(drawn) for drawn in translation.draws.get(training, ())] for training in MODES],
        "mixed": translation.mixed,
        "lengths": input_lengths.to_data(translation.lengths),
        "options": list(boundary.options),
        "layouts": {name: [list(layout.order) for layout in known] for name, known in boundary.layouts.items()},
        "static": {name: value for name, value in boundary.static.items() if _is_json(value)},
    }


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _orders(drawn: Drawn) -> Any:
    if drawn is None:
        return None
    if not isinstance(drawn, Layout):
        return {_ROUND: [_orders(each) for each in drawn]}
    folded = drawn.folded
    if folded is None:
        return list(drawn.order)
    return {"axes": list(drawn.order), "folded": [folded.axis, list(folded.shape), list(folded.order)]}


def _drawn(orders: Any) -> Drawn:
    match orders:
        case None:
            return None
        case {"round": several}:
            return tuple(map(_drawn, several))
        case {"axes": axes, "folded": [axis, shape, order]}:
            return Layout(tuple(axes), Folded(axis, tuple(shape), tuple(order)))
        case _:
            return Layout(tuple(orders))


_ROUND = "round"  # of a loop


def remembered(path: Path, metadata: dict[str, str]) -> Remembered:
    """The same, read back.

    Args:
        path: of the file, for the message.
        metadata: the file's.

    Raises:
        BrokenWeights: it says nothing of a translation.
    """
    try:
        told, record = json.loads(metadata[KEY]), record_of(str(path), metadata)
        if record is None:
            raise LookupError("it has no fingerprints")
        calls = tuple(map(_call, [told, *told["others"]]))
        # Files of before say neither.
        checkpointed, stacked = (tuple(map(str, told.get(name, ()))) for name in ("checkpointed", "stacked"))
        return Remembered(str(told["class"]), calls, record.fingerprints, record.hash, checkpointed, stacked)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BrokenWeights(
            f"{path} does not say of which translation it is: it is not the file that port translate wrote, or was "
            "written again by another program. Translate again"
        ) from error


def _call(told: dict[str, Any]) -> RememberedCall:
    return RememberedCall(
        tuple(told["parameters"]),
        tuple(Layout(tuple(order)) for order in told["inputs"]),
        {training: _read(tree) for training, tree in zip(MODES, told["outputs"], strict=True)},
        {training: tuple(map(_drawn, draws)) for training, draws in zip(MODES, told["draws"], strict=True)},
        bool(told["mixed"]),
        input_lengths.from_data(told["lengths"]),
        tuple(told["options"]),
        {name: tuple(Layout(tuple(order)) for order in orders) for name, orders in told["layouts"].items()},
        dict(told["static"]),
    )


def draw_layouts(path: str | Path, *, training: bool = True) -> tuple[Drawn, ...]:
    """How what a written module draws lies, draw by draw: ``layouts`` of `port.shared_dropout`.

    Args:
        path: of the weights file beside the source.
        training: whether it is drawn in training, or in evaluation.

    Raises:
        BrokenWeights: it says nothing of a translation.
    """
    with open_safetensors(path) as weights:
        return remembered(Path(path), dict(weights.metadata)).calls[0].draws.get(training, ())


def torch_arrays(mapping: Mapping, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The original's tensors from Flax's variables, through the mapping; without those that Flax has no home for.

    Raises:
        WeightsMismatch: a variable that the mapping knows and is not there, or has another shape.
    """
    found: dict[str, np.ndarray] = {}
    for entry in mapping.entries:
        if entry.collection == TORCH_ONLY:
            continue
        if missing := [target for target in entry.targets if target not in values]:
            raise WeightsMismatch(f"the weights do not fit the mapping: missing: {', '.join(missing)}")
        arrays = entry.inverse()(tuple(values[target] for target in entry.targets))
        found.update(zip(entry.sources, arrays, strict=True))
    return found


def fingerprints(mapping: Mapping, values: dict[str, np.ndarray], hash: str = HASH) -> dict[str, str]:
    """A tensor's name → the beginning of its hash: by torch's names, and by Flax's where torch's state has none."""
    targets = {target for entry in mapping.entries if entry.collection != TORCH_ONLY for target in entry.targets}
    hidden = {path: array for path, array in values.items() if path not in targets}
    named = {**torch_arrays(mapping, values), **hidden}
    return {name: fingerprint(array, hash) for name, array in named.items()}


def _written(tree: Any) -> Any:
    match tree:
        case Layout():
            return {"axes": list(tree.order)}
        case dict():
            return {"dict": [[key, _written(item)] for key, item in tree.items()]}
        case tuple() | list():
            return {"items": [_written(item) for item in tree]}
        case _:
            return None  # no array: it is not compared


def _read(tree: Any) -> Any:
    match tree:
        case {"axes": order}:
            return Layout(tuple(order))
        case {"dict": items}:
            return {key: _read(item) for key, item in items}
        case {"items": items}:
            return tuple(_read(item) for item in items)
        case _:
            return None
