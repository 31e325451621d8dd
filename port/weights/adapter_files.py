"""Reads a PEFT folder: a LoRA adapter's config and its tensors, each with its module. Nothing is unpickled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Table
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from port.errors import BrokenWeights, UsageError, WeightsMismatch
from port.mapping import TORCH_ONLY, Mapping
from port.weights.adapter_config import AdapterConfig, adapter_config_from, read_adapter_config
from port.weights.adapter_folder import FILES, PREFIX
from port.weights.made_tensors import made
from port.weights.orbax_files import is_orbax
from port.weights.sources import Source, opened
from port.weights.tensors import TensorInfo

_FACTOR = re.compile(r"(?P<path>.+)\.lora_(?P<embedding>embedding_)?(?P<which>[AB])(?(embedding)|\.weight)")


@dataclass(frozen=True)
class Factors:
    """The adapter of one module.

    Attributes:
        path: the module's path, in the adapted model.
        down: the name of A's tensor in the file, of shape (rank, in, …).
        up: the name of B's tensor, (out, rank, …).
        scaling: the factor of their product.
        rank: the rank in the config.
        is_embedding: whether it adapts an embedding's table, which is (in, out).
    """

    path: str
    down: str
    up: str
    scaling: float
    rank: int
    is_embedding: bool = False

    @property
    def weight(self) -> str:
        """The name of the tensor that it adapts."""
        return f"{self.path}.weight"


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter; its tensors have not been read.

    Attributes:
        config: its config.
        tensors: under their names in the file.
        factors: of each module that it adapts.
        whole: a name in the model → the tensor that replaces it: what ``modules_to_save`` and ``bias`` train.
    """

    config: AdapterConfig
    tensors: Source
    factors: tuple[Factors, ...]
    whole: dict[str, str]

    def missing(self, names: dict[str, tuple[int, ...]]) -> list[str]:
        """The modules that the config lists as adapted, but that the file has nothing for.

        Args:
            names: of the model's tensors, with their shapes.
        """
        there = {factors.path for factors in self.factors}
        paths = (
            name.removesuffix(".weight") for name, shape in names.items() if name.endswith(".weight") and shape[1:]
        )
        return [path for path in paths if path not in there and self.config.is_target(path)]


@contextmanager
def opened_adapter(source: Path | str) -> Iterator[Adapter]:
    """Open a PEFT folder, or a file of Flax factors that was made from one.

    Raises:
        BrokenWeights: one of its files is missing or cannot be read.
        UsageError: it is not for LoRA, or for a variant that computes something else.
        WeightsMismatch: tensors that contradict the config, or are not LoRA's; all of them.
    """
    folder = Path(source)
    if folder.is_file() or (folder.is_dir() and is_orbax(folder)):
        with opened(folder) as variables:
            yield _converted(variables)
        return
    config = read_adapter_config(folder)
    path = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if path is None:
        raise BrokenWeights(f"{folder} holds an adapter's config and no weights: expected {' or '.join(FILES)}")
    with opened(path) as tensors:
        yield adapter_of(config, tensors)


def _converted(variables: Source) -> Adapter:
    """The adapter that a file of Flax factors was made from, with their current values."""
    record = variables.record
    if record is None or not record.adapter:
        raise UsageError(
            f"{variables.origin} does not say that it is an adapter: expected a PEFT folder, or a file that port "
            "convert made from one"
        )
    tensors = variables.in_collections(lambda collection: collection != TORCH_ONLY)
    back = [entry.inverse() for entry in record.carried]
    Mapping(tuple(back)).check(tensors.shapes)
    if several := [entry for entry in back if len(entry.targets) > 1]:
        raise UsageError(f"{variables.origin}: what the adapter holds whole is fused there: {several[0]}")
    entries = {entry.targets[0]: entry for entry in back}
    return adapter_of(adapter_config_from(record.adapter, variables.origin), made(tensors, entries, entries))


def check_adapter(config: str, tensors: Table[str, TensorInfo]) -> None:
    """Check that the tensors to be written match the adapter's config.

    Args:
        config: the text of ``adapter_config.json``.
        tensors: under PEFT's names.

    Raises:
        PortError: as `opened_adapter`.
    """
    infos = Source(dict(tensors), lambda name: np.empty(tensors[name].shape), origin="the adapter")
    adapter_of(adapter_config_from(config, "its config"), infos)


def adapter_of(config: AdapterConfig, tensors: Source) -> Adapter:
    """Build the adapter from tensors under PEFT's names.

    Raises:
        WeightsMismatch: tensors that contradict the config, or are not LoRA's; all of them.
    """
    found: dict[tuple[str, bool], dict[str, str]] = {}
    whole: dict[str, str] = {}
    wrong: list[str] = []
    for name in tensors:
        inner = name.removeprefix(PREFIX)
        if match := _FACTOR.fullmatch(inner):
            found.setdefault((match["path"], match["embedding"] is not None), {})[match["which"]] = name
        elif ".lora_" in inner:
            wrong.append(f"unexpected: {name}: no lora_A.weight, lora_B.weight, lora_embedding_A or lora_embedding_B")
        elif ".original_module." in inner or inner.replace(".modules_to_save.", ".") in whole:
            continue  # with bias = "all" PEFT saves a whole module's bias three times: the model's, and its own twice
        else:
            whole[inner.replace(".base_layer.", ".").replace(".modules_to_save.", ".")] = name
        if inner == name:
            wrong.append(f"unexpected: {name}: PEFT's names begin with {PREFIX}")
    factors: list[Factors] = []
    for (path, is_embedding), parts in found.items():
        if len(parts) == 1:
            ((which, name),) = parts.items()
            other = "B" if which == "A" else "A"
            wrong.append(f"missing: the lora_{other} of {path}, whose {name} is there")
            continue
        rank = config.rank_of(path)
        factors.append(Factors(path, parts["A"], parts["B"], config.scaling_of(path), rank, is_embedding))
        wrong += _misshapen(factors[-1], tensors)
    if wrong:
        raise WeightsMismatch(f"{tensors.origin} does not fit {config.origin}:\n  " + "\n  ".join(sorted(wrong)))
    return Adapter(config, tensors, tuple(factors), whole)


def _misshapen(factors: Factors, tensors: Source) -> Iterator[str]:
    for name, axis, said in ((factors.down, 0, "(rank, in)"), (factors.up, 1, "(out, rank)")):
        shape = tensors.shapes[name]
        if len(shape) < 2 or shape[axis] != factors.rank:
            yield f"{name} has shape {shape}: it is {said}, and the rank of {factors.path} is {factors.rank}"
