"""Loads a checkpoint's tensors onto a mesh: each process reads the parts that its own devices need, tensor by tensor.

A device's part of a tensor is a box of it; the mapping's moves determine which boxes of the file's tensors it is made
of, and only those are read. The tensor goes to its devices, and its host memory is released before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding

from port.errors import PortError, WeightsMismatch
from port.mapping import TORCH_ONLY, Entry, Mapping
from port.mapping.entry import gather
from port.mapping.nnx_guide import dotted
from port.moves import Box, Shape
from port.moves.boxes import cut, hull, inside, size_of
from port.weights.agreement import agree
from port.weights.box_files import aligned
from port.weights.carrying import floating
from port.weights.contiguous import all_in_c_order
from port.weights.entry_boxes import EntryBoxes
from port.weights.flax import refuse_empty
from port.weights.memory import Memory
from port.weights.nnx_variables import weights_of
from port.weights.shardings import Shardings, shardings_of
from port.weights.sources import Source
from port.weights.tensors import dtypes

Found = Callable[[], tuple[Source, Mapping]]
"""Opens the weights, and determines how they are converted."""


@dataclass
class PlacedWeights:
    """What `port.load` placed on a mesh, and what this process read for it.

    Attributes:
        shardings: path → the tensor's sharding.
        nbytes: bytes of the converted tensors, in the file.
        nbytes_read: bytes of the parts of them that this process read, or of whole tensors if the file only has those.
            For an Orbax folder the chunks around a part are read too, and not counted; for a tensor that is made from
            several (an adapter merged, a weight widened) its result is counted.
        nbytes_placed: bytes on this process's devices.
    """

    shardings: dict[str, NamedSharding] = field(default_factory=dict)
    nbytes: int = 0
    nbytes_read: int = 0
    nbytes_placed: int = 0


def place(
    module: nnx.Module,
    found: Found,
    *,
    mesh: Mesh | None = None,
    sharding: Shardings = None,
    dtype: str | None = None,
) -> PlacedWeights:
    """Fill a module with tensors on a mesh; an abstract module (`nnx.eval_shape`) needs no memory before.

    Every process of a program on several hosts calls this, each with the same arguments.

    Args:
        module: filled in place.
        found: opens the weights, and determines the mapping from their names to the module's paths.
        mesh: the devices.
        sharding: of each tensor; see `port.weights.shardings.Shardings`.
        dtype: the dtype that floating tensors are cast to; by default each keeps the file's. Others get the module's
            dtype.

    Raises:
        WeightsMismatch: tensors that are missing, unexpected, mis-shaped, or cannot be sharded so; errors of another
            process. The module is then unchanged, in every process.
        BrokenWeights: a file cannot be read.
    """
    plan: _Plan | None = None
    wrong: Exception | None = None
    try:
        plan = _Plan.made(module, found, mesh, sharding, dtype)
    except Exception as error:
        wrong = error
    agree(wrong, "" if plan is None else _seen(plan.source))
    assert plan is not None  # agree has raised any error
    filled: list[tuple[tuple[Any, ...], jax.Array]] = []
    try:
        for entry in plan.entries:
            filled += plan.carry(entry)
    except Exception as error:
        wrong = error
    agree(wrong, "")
    nnx.update(module, nnx.from_flat_state(filled))
    return plan.done


def _seen(source: Source) -> str:
    """What every process must see in the files: names, shapes and dtypes."""
    lines = sorted(f"{name} {info.shape} {info.dtype}" for name, info in source.tensors.items())
    return sha256("\n".join(lines).encode()).hexdigest()


@dataclass
class _Plan:
    """Everything that is known before anything is read."""

    source: Source
    entries: list[Entry]
    variables: dict[str, tuple[tuple[Any, ...], Any]]
    dtypes: dict[str, np.dtype]
    done: PlacedWeights
    names: dict[str, str]
    shapes: dict[str, Shape]

    @classmethod
    def made(cls, module: nnx.Module, found: Found, mesh: Mesh | None, sharding: Shardings, dtype: str | None) -> _Plan:
        """Make the plan. Raises WeightsMismatch for what does not fit, BrokenWeights for an unreadable file."""
        own = {dotted(path): (path, variable) for path, variable in weights_of(module)}
        wrong: list[PortError] = []
        shardings: dict[str, NamedSharding] = {}
        with _noted(wrong):
            shardings = shardings_of({path: variable for path, (_, variable) in own.items()}, mesh, sharding)
        with _noted(wrong):
            source, mapping = found()
            with _noted(wrong):
                mapping.check(source.shapes)
            with _noted(wrong):
                refuse_empty(module, mapping, source)
        if wrong:
            raise wrong[-1] if len(wrong) == 1 else type(wrong[-1])("\n".join(map(str, wrong)))
        entries = [entry for entry in mapping.present(source) if entry.collection != TORCH_ONLY]
        # If a tensor has several names, the first is read.
        names = {name: source.aliases.get(name, name) for name in source.tensors}
        plan = cls(source, entries, own, {}, PlacedWeights(), names, source.shapes)
        for entry in entries:
            plan.dtypes |= plan._dtypes_of(entry, dtype)
        plan.done.shardings = {path: shardings[path] for path in plan.dtypes}
        plan._refuse_wide()
        return plan

    def _dtypes_of(self, entry: Entry, dtype: str | None) -> dict[str, np.dtype]:
        infos = [self.source.tensors[name] for name in gather(entry, self.names)]
        target_dtypes = entry.dtypes(tuple(info.shape for info in infos), tuple(info.dtype for info in infos))
        return {
            target: (held if dtype is None else dtypes()[dtype])
            if held.name in floating()
            else np.dtype(self.variables[target][1].dtype)
            for target, held in zip(entry.targets, target_dtypes, strict=True)
        }

    def _refuse_wide(self) -> None:
        """Raise for dtypes that JAX would silently narrow."""
        wide = [path for path, dtype in self.dtypes.items() if jax.dtypes.canonicalize_dtype(dtype) != dtype]
        if wide:
            raise WeightsMismatch(
                f"JAX supports {self.dtypes[wide[0]]} only with jax.config.update('jax_enable_x64', True); set "
                f"that, or cast with dtype='float32': {', '.join(wide)}"
            )

    def carry(self, entry: Entry) -> list[tuple[tuple[Any, ...], jax.Array]]:
        """Convert an entry's targets, each onto its devices."""
        boxes = EntryBoxes(entry, self.source, self.names, self.shapes)
        placed = [
            (self.variables[target][0], self._on_devices(target, place, boxes))
            for place, target in enumerate(entry.targets)
        ]
        self.done.nbytes += sum(self.source.tensors[name].nbytes for name in set(gather(entry, self.names)))
        self.done.nbytes_read += boxes.nbytes_read
        return placed

    def _on_devices(self, target: str, place: int, boxes: EntryBoxes) -> jax.Array:
        shape = tuple(self.variables[target][1].shape)
        sharding = self.done.shardings[target]
        devices = {
            device: tuple(range(*part.indices(size)) for part, size in zip(index or (), shape, strict=True))
            for device, index in sharding.addressable_devices_indices_map(shape).items()
        }
        made: dict[Box, np.ndarray] = {}
        for around, inner in _readings(list(dict.fromkeys(devices.values()))).items():
            array = boxes.target(place, around).astype(self.dtypes[target], copy=False)
            parts = all_in_c_order([cut(array, inside(box, around)) for box in inner], _ALIGNED)
            made |= dict(zip(inner, parts, strict=True))
        placed = [jax.device_put(made[box], device) for device, box in devices.items()]
        self.done.nbytes_placed += sum(made[box].nbytes for box in devices.values())
        # Arrays in transfer use host memory. A process without a device of the mesh only has the dtype.
        whole = jax.make_array_from_single_device_arrays(shape, sharding, placed, dtype=self.dtypes[target])
        return jax.block_until_ready(whole)


@contextmanager
def _noted(wrong: list[PortError]) -> Iterator[None]:
    """Collect an error raised in this context, and continue after it, so that all are reported at once."""
    try:
        yield
    except PortError as error:
        wrong.append(error)


def _readings(boxes: list[Box]) -> dict[Box, list[Box]]:
    """Group the devices' boxes into reads: a single read if together they fill a box without a gap."""
    if not boxes:
        return {}
    around = hull(boxes)
    if sum(map(size_of, boxes)) == size_of(around):
        return {around: boxes}
    return {box: [box] for box in boxes}


class _Aligned(Memory):
    """Memory that XLA's CPU backend uses without copying."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return aligned(shape, dtype)


_ALIGNED = _Aligned()
