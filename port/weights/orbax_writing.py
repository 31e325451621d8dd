"""Writes Orbax checkpoint folders piece by piece: orbax itself needs all arrays at once."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from port.errors import BrokenWeights
from port.extras import naming_extras
from port.weights.ahead import made_ahead
from port.weights.contiguous import in_c_order
from port.weights.memory import Memory
from port.weights.mesh_plan import MeshPlan
from port.weights.metadata import Metadata
from port.weights.nesting import nested
from port.weights.tensors import Tensor

CHUNK = 2**23
"""Approximate bytes of a chunk: the part of a tensor that is copied, written and later read at once. Few enough that
the copy stays in the cache until it is written; enough that the index of all chunks, which grows with their number and
is rewritten as they are committed, stays small in comparison."""
IN_FLIGHT = 2 * CHUNK
"""Bytes that may wait for the disk, before the next chunk is copied."""


@naming_extras("an Orbax checkpoint")
def write_orbax(path: Path, tensors: Sequence[Tensor], metadata: Metadata = dict, mesh: MeshPlan | None = None) -> None:
    """Write a folder as orbax's ``PyTreeCheckpointer`` does, nested at the names' dots.

    Memory holds two tensors, if they are not mapped from a file, and `IN_FLIGHT` bytes. Nothing is compressed: zstd
    takes longer than the disk, and makes trained float32 weights smaller by less than a tenth. The file's metadata is
    in orbax's custom metadata.

    With ``mesh`` no chunk has elements of two devices: a process that restores its shards reads only these. The
    folder then stores the arrays' shardings, as orbax does.

    Raises:
        UsageError: names that cannot be nested.
        BrokenWeights: an empty array, which orbax does not save; a tensor that differs from its declaration.
        OSError: the folder cannot be written.
    """
    import jax
    import orbax.checkpoint as ocp

    empty = [tensor.name for tensor in tensors if not tensor.nbytes]
    if empty:
        raise BrokenWeights(f"orbax does not save empty arrays, such as {', '.join(empty)}")
    if not tensors:
        raise BrokenWeights("orbax does not save a tree without arrays")
    tree = nested({tensor.name: tensor for tensor in tensors})
    custom_metadata = metadata()  # orbax writes it after the tensors, with what is known of them by then
    writes = _Writes()
    registry = ocp.type_handlers.create_type_handler_registry(
        (Tensor, _handler(writes, mesh, lambda: custom_metadata.update(metadata()))),
        (jax.Array, ocp.type_handlers.ArrayHandler()),
    )
    handler = ocp.PyTreeCheckpointHandler(use_compression=False, type_handler_registry=registry)
    try:
        with ocp.Checkpointer(handler) as checkpointer:
            checkpointer.save(path.absolute(), ocp.args.PyTreeSave(tree), custom_metadata=custom_metadata or None)
    except BaseException:
        writes.abandon()
        _remove_unfinished(path)
        raise


def _remove_unfinished(path: Path) -> None:
    for _ in range(3):  # what tensorstore has started may create the folder again
        for unfinished in path.parent.glob(f"{escape(path.name)}.orbax-checkpoint-tmp*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        time.sleep(0.02)


class _Writes:
    """Writes that wait for the disk, the earliest first."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, int]] = deque()
        self._nbytes = 0

    def add(self, store: Any, chunk: np.ndarray) -> None:
        """Start one more write; waits until at most `IN_FLIGHT` bytes are pending.

        Raises:
            OSError: a write failed.
        """
        self._waiting.append((store.write(chunk, can_reference_source_data_indefinitely=True), chunk.nbytes))
        self._nbytes += chunk.nbytes
        self._finish(IN_FLIGHT)

    def finish(self) -> None:
        """Wait for all of them. Raises OSError if one failed."""
        self._finish(0)

    def abandon(self) -> None:
        """Wait for all of them, whether they succeed or not: after that none adds to a folder that is removed."""
        while self._waiting:
            with suppress(Exception):
                self._waiting.popleft()[0].result()

    def _finish(self, left: int) -> None:
        while self._nbytes > left:
            written, nbytes = self._waiting[0]
            _result(written)
            self._waiting.popleft()
            self._nbytes -= nbytes


def _result(future: Any) -> Any:
    """The result of a tensorstore future; its errors, which have no class of their own, become OSError."""
    try:
        return future.result()
    except Exception as error:
        if (code := re.search(r"os_error_code='(\d+)'", str(error))) is None:
            raise OSError(str(error)) from error
        raise OSError(int(code[1]), os.strerror(int(code[1]))) from error


def _handler(writes: _Writes, mesh: MeshPlan | None, on_end: Callable[[], None]) -> Any:
    """Orbax's handler of numpy arrays, for tensors that are read when needed.

    It writes as orbax's handler of sharded arrays does: each chunk is a shard along the first axis.

    A handler must know an array's location in tensorstore. Of orbax 0.12 only ``get_json_tspec_write`` is public, and
    deprecated; ``build_array_write_spec`` behind it is private. The coming interface,
    ``orbax.checkpoint.experimental.v1``, has neither, and its array handlers start all writes before they wait for
    one, as today's do.
    """
    import orbax.checkpoint as ocp
    import tensorstore

    class Handler(ocp.type_handlers.NumpyHandler):
        async def serialize(self, values: Any, infos: Any, args: Any = None) -> list[Any]:
            # Like the other formats: complete after the process is killed, not after a power cut.
            context = tensorstore.Context({"file_io_sync": False}, infos[0].ts_context)
            memory = Memory()
            with made_ahead(values) as ordered:
                for tensor, info in zip(ordered, infos, strict=True):
                    chunk = _chunk(tensor, mesh)
                    spec = ocp.type_handlers.get_json_tspec_write(
                        info, True, tensor.shape, chunk, tensor.dtype, process_index=0
                    )
                    # Nothing else runs in this loop, and what is pending can be waited for when it is closed.
                    store = _result(tensorstore.open(tensorstore.Spec(spec), create=True, open=True, context=context))
                    for place, part in _chunks(tensor.array(), memory, *chunk[:1]):
                        writes.add(store[place], part)
            writes.finish()
            if mesh is not None:
                mesh.write(Path(infos[0].parent_dir))
            on_end()
            return []

        def typestr(self) -> str:
            # What is restored if no target is passed: arrays on the host, or on the devices of the mesh.
            kind = ocp.type_handlers.NumpyHandler() if mesh is None else ocp.type_handlers.ArrayHandler()
            return kind.typestr()

    return Handler()


def _chunk(tensor: Tensor, mesh: MeshPlan | None) -> tuple[int, ...]:
    """The shape of a chunk: some rows of the tensor, or of a device's part of it."""
    if not tensor.shape:
        return ()
    if mesh is not None:
        return mesh.chunk(tensor.name, tensor.shape, tensor.dtype.itemsize, CHUNK)
    chunks = min(-(-tensor.nbytes // CHUNK), tensor.shape[0])
    return (-(-tensor.shape[0] // chunks), *tensor.shape[1:])


def _chunks(array: np.ndarray, memory: Memory, rows: int | None = None) -> Iterator[tuple[Any, np.ndarray]]:
    """Each chunk, in C order, and its position."""
    if rows is None:
        yield ..., array
        return
    for begin in range(0, len(array), rows):
        place = slice(begin, min(begin + rows, len(array)))
        yield place, in_c_order(array[place], memory)
