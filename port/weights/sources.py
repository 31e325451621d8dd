"""Sources of weights: a module, a state dict, a tree of variables, or a file; read a tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from port.errors import UsageError
from port.mapping import FROZEN, TORCH_ONLY, Guide, Renaming, Rules, names_only
from port.mapping.given import BUFFER
from port.mapping.linen_guide import flat
from port.mapping.torch_guide import unwrapped
from port.moves import Box
from port.moves.boxes import cut
from port.weights.checkpoint import open_checkpoint
from port.weights.prefixes import count_of_averages, strip_prefixes
from port.weights.record import ConversionRecord, record_of
from port.weights.tensors import Checkpoint, TensorInfo

TRAINING = {"opt_state", "step"}
"""What a file of variables may have beside them: the optimizer's state, and the number of updates."""
COLLECTIONS = {"params", "batch_stats", "buffers", "LoRAParam", BUFFER, FROZEN, TORCH_ONLY}
"""Possible first parts of the names in a tree of Flax variables without parameters."""

BoxReader = Callable[[str, Box], np.ndarray]


class Source(Mapping[str, np.ndarray]):
    """Named tensors: names, shapes and dtypes are known, an array is read when it is needed.

    Attributes:
        tensors: name → shape and dtype, in order.
        aliases: name → the earlier name of the very same tensor.
        left_out: what is there but is not a weight, with the reason.
        origin: where it comes from, for messages.
        is_flax: whether they are known to be Flax variables.
        record: the file's record of the conversion that made it, if any.
        read_box: reads only a part of a tensor; None if only whole tensors can be read.
        unwrapped: a name with a wrapper's prefix, and the name without it, if there was one.
    """

    unwrapped: tuple[str, str] | None = None

    def __init__(
        self,
        tensors: Mapping[str, TensorInfo],
        read: Callable[[str], np.ndarray],
        *,
        aliases: Mapping[str, str] | None = None,
        left_out: Mapping[str, str] | None = None,
        origin: str = "the weights",
        is_flax: bool = False,
        record: ConversionRecord | None = None,
        read_box: BoxReader | None = None,
    ) -> None:
        self.tensors = dict(tensors)
        self.aliases = dict(aliases or {})
        self.left_out = dict(left_out or {})
        self.origin = origin
        self.is_flax = is_flax
        self.record = record
        self._read = read
        self._read_box = read_box

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.tensors:
            raise KeyError(name)
        return self._read(name)

    @property
    def reads_boxes(self) -> bool:
        """Whether a part of a tensor can be read alone."""
        return self._read_box is not None

    def box(self, name: str, box: Box) -> np.ndarray:
        """Return a part of a tensor; cut from the whole if it cannot be read alone."""
        return cut(self[name], box) if self._read_box is None else self._read_box(name, box)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name → shape; nothing is read."""
        return {name: info.shape for name, info in self.tensors.items()}

    def guide(self, side: str) -> Guide:
        """A guide from the names and shapes, without a module."""
        return names_only(side, self.tensors, tied=self.aliases)

    def renamed(self, names: Mapping[str, str]) -> Source:
        """The same tensors under other names; tensors without a new name are left out."""
        back = {new: old for old, new in names.items()}
        read_box = self._read_box
        tensors = {new: self.tensors[old] for old, new in names.items()}
        aliases = {names[a]: names[b] for a, b in self.aliases.items() if a in names and b in names}
        return Source(
            tensors,
            lambda name: self._read(back[name]),
            aliases=aliases,
            left_out=self.left_out,
            origin=self.origin,
            is_flax=self.is_flax,
            record=self.record,
            read_box=None if read_box is None else lambda name, box: read_box(back[name], box),
        )

    def without(self, names: Collection[str], reason: str) -> Source:
        """The same without some tensors, which are listed as left out."""
        out = [name for name in self.tensors if name in set(names)]
        if not out:
            return self
        kept = self.renamed({name: name for name in self.tensors if name not in out})
        kept.left_out |= dict.fromkeys(out, reason)
        return kept

    def beside(self, other: Source) -> Source:
        """These tensors together with another source's."""
        return Source(
            self.tensors | other.tensors,
            lambda name: (self if name in self else other)[name],
            aliases=self.aliases | other.aliases,
            left_out=self.left_out,
            origin=self.origin,
            is_flax=self.is_flax,
            record=self.record,
            read_box=(lambda name, box: (self if name in self else other).box(name, box))
            if self.reads_boxes and (other.reads_boxes or not other)
            else None,
        )

    def without_prefixes(self, expected: Collection[str], rules: Rules | None = None) -> Source:
        """Remove the prefixes that DistributedDataParallel or torch.compile put before the expected names.

        Also removes AveragedModel's prefix, and leaves out its count.

        Args:
            expected: the model's names.
            rules: the user's rules about names.
        """
        renaming = Renaming(rules.rename if rules is not None else None)
        count = count_of_averages(self.tensors, expected)
        names = [name for name in self.tensors if name != count]
        new = strip_prefixes(names, expected, renaming=renaming)
        stripped = self.renamed(new)
        stripped.unwrapped = next(((name, short) for name, short in new.items() if name != short), None)
        if count is not None:
            stripped.left_out[count] = "AveragedModel's count, not a weight"
        return stripped

    def collections(self) -> dict[str, str]:
        """Flax's collections: name → its collection; ``"params"`` if the names do not say."""
        has_collections = self._tells_collections()
        return {name: name.partition(".")[0] if has_collections else "params" for name in self.tensors}

    def in_collections(self, wanted: Callable[[str], bool]) -> Source:
        """Flax variables of some collections, under their paths alone (without ``params.``, without ``.value``)."""
        collections, has_collections = self.collections(), self._tells_collections()
        # An nnx.State that was saved directly has its arrays under ``….value``.
        boxed = bool(self.tensors) and all(name.endswith(".value") for name in self.tensors)
        names = {}
        for name, collection in collections.items():
            if wanted(collection):
                path = name.partition(".")[2] if has_collections else name
                names[name] = path.removesuffix(".value") if boxed else path
        return self.renamed(names)

    def _tells_collections(self) -> bool:
        tops = {name.partition(".")[0] for name in self.tensors}
        return all("." in name for name in self.tensors) and ("params" in tops or tops <= COLLECTIONS)


def is_torch(thing: Any) -> bool:
    """Whether something is a torch module. Checks the classes' names, so as not to import torch."""
    return "torch.nn.modules.module.Module" in _families(thing)


def is_nnx(thing: Any) -> bool:
    """Whether something is an nnx module; without importing Flax."""
    return "flax.nnx.module.Module" in _families(thing)


@contextmanager
def opened(source: Any, *, key: str | None = None) -> Iterator[Source]:
    """Open the tensors of a torch module, an nnx module, a dict of arrays or tensors (nested too), or a file.

    Args:
        source: one of these; a file's path, or an open `Checkpoint`, at its ``key``.
        key: the key of the state dict in a training checkpoint, if it has several.

    Raises:
        BrokenWeights: a file cannot be read.
        UsageError: ``source`` is something else.
    """
    if isinstance(source, Source):
        yield source
    elif is_torch(source):
        yield _of_tensors(unwrapped(source).state_dict())
    elif is_nnx(source):
        from port.weights.nnx_variables import variables_of

        yield _of_arrays(variables_of(source), is_flax=True)
    elif isinstance(source, Mapping):
        nested = any(isinstance(value, Mapping) for value in source.values())
        leaves = flat(source) if nested else dict(source)
        yield _of_tensors(leaves) if _holds_tensors(leaves) else _of_arrays(leaves, is_flax=nested)
    elif isinstance(source, Checkpoint):
        yield _of_checkpoint(source)
    elif isinstance(source, str | Path):
        with open_checkpoint(source, key=key) as checkpoint:
            yield _of_checkpoint(checkpoint)
    else:
        raise UsageError(f"expected a module, a state dict, variables or a file, got {type(source).__qualname__}")


def _of_checkpoint(checkpoint: Checkpoint) -> Source:
    is_flax = checkpoint.format in ("msgpack", "orbax") or checkpoint.metadata.get("format") == "flax"
    tensors, left_out = checkpoint.tensors, dict(checkpoint.left_out)
    if is_flax and any(name.startswith("params.") for name in tensors):
        training = [name for name in tensors if name.partition(".")[0] in TRAINING]
        tensors = {name: info for name, info in tensors.items() if name not in training}
        if training:
            kinds = ", ".join(sorted({name.partition(".")[0] for name in training}))
            left_out[kinds] = "training state, not weights"
    return Source(
        tensors,
        checkpoint.read,
        aliases=checkpoint.aliases,
        left_out=left_out,
        origin=str(checkpoint.path),
        is_flax=is_flax,
        record=record_of(str(checkpoint.path), checkpoint.metadata),
        read_box=None if checkpoint.box_reader is None else checkpoint.read_box,
    )


def _of_arrays(arrays: Mapping[str, Any], *, is_flax: bool = False) -> Source:
    kept = {name: np.asarray(array) for name, array in arrays.items() if hasattr(array, "shape")}
    left_out = {name: f"a {type(value).__qualname__}" for name, value in arrays.items() if name not in kept}
    infos = {name: TensorInfo(array.shape, array.dtype) for name, array in kept.items()}
    return Source(infos, kept.__getitem__, left_out=left_out, is_flax=is_flax)


def _of_tensors(state: Mapping[str, Any]) -> Source:
    """A state dict; arrays in it are used as they are."""
    from port.weights.torch_arrays import as_numpy, numpy_dtype

    tensors: dict[str, TensorInfo] = {}
    aliases: dict[str, str] = {}
    left_out: dict[str, str] = {}
    seen: dict[Any, str] = {}
    for name, value in state.items():
        if not hasattr(value, "shape"):
            left_out[name] = f"a {type(value).__qualname__}, not a tensor"
            continue
        tensors[name] = TensorInfo(tuple(value.shape), numpy_dtype(value.dtype))
        is_sparse = str(getattr(value, "layout", "")).startswith("torch.sparse")
        if hasattr(value, "detach") and value.device.type != "meta" and value.numel() and not is_sparse:
            place = (value.untyped_storage().data_ptr(), value.storage_offset(), tuple(value.shape), value.stride())
            if (first := seen.setdefault((place, value.dtype), name)) != name:
                aliases[name] = first

    def read(name: str) -> np.ndarray:
        value = state[name]
        return as_numpy(value) if hasattr(value, "detach") else np.asarray(value)

    return Source(tensors, read, aliases=aliases, left_out=left_out)


def _holds_tensors(values: Mapping[str, Any]) -> bool:
    return any(hasattr(value, "detach") for value in values.values())


def _families(thing: Any) -> set[str]:
    return {f"{cls.__module__}.{cls.__qualname__}" for cls in type(thing).__mro__}
