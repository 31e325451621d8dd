"""Translation metadata in the safetensors header: the calling convention of the written module.

It is part of the file's metadata, which every safetensors reader returns, together with the metadata of every converted
file: the mapping, and each tensor's fingerprint. With these the files can be verified again, and converted back.
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
    from port.translation.artifact.written_module import WrittenModule  # it imports jax

KEY = "port.translation"
MODES = (False, True)  # evaluation, training


@dataclass(frozen=True)
class CallMetadata:
    """The metadata of an example call.

    Attributes:
        parameters: the parameters of the written ``__call__``, with their stars.
        inputs: the layouts of the input tensors.
        outputs: mode (True for training) → the tree of results, with layouts for arrays.
        draws: mode → the layouts of random draws.
        mixed: whether the original computes a part in float32, whatever its precision.
        lengths: the lengths of the input tensors.
        options: the parameters that have the original's default.
        layouts: parameter of the original → layouts of the tensors in its argument.
        static: parameter of the original → its constant argument.
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
        """Return the calling convention, for the signature of the original's ``forward``."""
        return Boundary(signature, self.parameters, self.inputs, self.outputs, self.options, self.layouts, self.static)


@dataclass(frozen=True)
class TranslationMetadata:
    """The translation metadata of a weights file.

    Attributes:
        name: name of the root's class.
        calls: the example calls.
        fingerprints: the original's tensor, or Flax's path of an array that no state dict has → fingerprint.
        hash: the hash function of the fingerprints.
        checkpointed: names of the written classes whose calls are under ``nnx.remat``.
        stacked: Flax's paths of the stacks of layers.
    """

    name: str
    calls: tuple[CallMetadata, ...]
    fingerprints: dict[str, str]
    hash: str
    checkpointed: tuple[str, ...] = ()
    stacked: tuple[str, ...] = ()


def metadata_of(translation: WrittenModule) -> dict[str, str]:
    """Return the metadata for a translation's weights file, including the model's constructor arguments."""
    metadata = {
        "class": translation.name,
        "checkpointed": list(translation.checkpointed),
        "stacked": list(translation.stacked),
        **_call_metadata(translation),
        "others": list(map(_call_metadata, translation.others)),
    }
    record = ConversionRecord(translation.mapping, fingerprints(translation.mapping, translation.values))
    arguments = translation.said_arguments.metadata()
    return {"format": "flax", KEY: json.dumps(metadata, ensure_ascii=False), **arguments, **record.metadata()}


def _call_metadata(translation: WrittenModule) -> dict[str, Any]:
    """Return the metadata of an example call."""
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


_ROUND = "round"  # the draws of a loop's iteration


def read_metadata(path: Path, metadata: dict[str, str]) -> TranslationMetadata:
    """Read the translation metadata from a file's metadata.

    Args:
        path: the file's path, for error messages.
        metadata: the file's metadata.

    Raises:
        BrokenWeights: there is no translation metadata, or it is incomplete.
    """
    try:
        own, record = json.loads(metadata[KEY]), record_of(str(path), metadata)
        if record is None:
            raise LookupError("it has no fingerprints")
        calls = tuple(map(_call, [own, *own["others"]]))
        # Older files have neither.
        checkpointed, stacked = (tuple(map(str, own.get(name, ()))) for name in ("checkpointed", "stacked"))
        return TranslationMetadata(str(own["class"]), calls, record.fingerprints, record.hash, checkpointed, stacked)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BrokenWeights(
            f"{path} has no translation metadata: port translate did not write it, or another program rewrote it. "
            "Translate again"
        ) from error


def _call(call: dict[str, Any]) -> CallMetadata:
    return CallMetadata(
        tuple(call["parameters"]),
        tuple(Layout(tuple(order)) for order in call["inputs"]),
        {training: _read(tree) for training, tree in zip(MODES, call["outputs"], strict=True)},
        {training: tuple(map(_drawn, draws)) for training, draws in zip(MODES, call["draws"], strict=True)},
        bool(call["mixed"]),
        input_lengths.from_data(call["lengths"]),
        tuple(call["options"]),
        {name: tuple(Layout(tuple(order)) for order in orders) for name, orders in call["layouts"].items()},
        dict(call["static"]),
    )


def draw_layouts(path: str | Path, *, training: bool = True) -> tuple[Drawn, ...]:
    """Return the layouts of a written module's random draws, in order: the ``layouts`` of `port.shared_dropout`.

    Args:
        path: the weights file beside the source.
        training: the mode.

    Raises:
        BrokenWeights: the file has no translation metadata.
    """
    with open_safetensors(path) as weights:
        return read_metadata(Path(path), dict(weights.metadata)).calls[0].draws.get(training, ())


def torch_arrays(mapping: Mapping, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Convert Flax's variables to the original's tensors by the mapping, without tensors that exist only in torch.

    Raises:
        WeightsMismatch: a variable of the mapping is missing, or has another shape.
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
    """Return name → fingerprint, the beginning of a hash; by torch's names, and by Flax's paths for other arrays."""
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
            return None  # not an array: it is not compared


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
