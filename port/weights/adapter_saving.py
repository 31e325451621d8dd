"""`port.save_adapter`: saves the LoRA factors of an nnx model as a PEFT folder. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from flax import nnx

from port.errors import UsageError, WeightsMismatch
from port.mapping import Entry, Mapping, between, rules_of
from port.mapping.entry import gather
from port.moves import Stack
from port.weights.adapter_files import Adapter, check_adapter, opened_adapter
from port.weights.adapter_folder import PREFIX, factor_names
from port.weights.checkpoint import write_checkpoint
from port.weights.lora_entries import TURNED
from port.weights.lora_places import LoRAPlace, guide_without, lora_places, without
from port.weights.new_adapter_config import new_adapter_config
from port.weights.nnx_variables import variables_of
from port.weights.tensors import Tensor, TensorInfo

Arrays = dict[str, np.ndarray]


def save_adapter(
    module: nnx.Module,
    folder: Path | str,
    *,
    like: Path | str | None = None,
    saved: Sequence[str] = (),
    base: str | None = None,
    mapping: Mapping | Path | str | None = None,
    overwrite: bool = False,
) -> None:
    """Write an nnx model's LoRA adapter as a PEFT folder, which ``peft`` loads; atomically.

    Args:
        module: a model with `port.nn.LoRA`, `nnx.LoRA` or `nnx.LoRALinear` in it.
        folder: the PEFT folder to write.
        like: the PEFT folder that the adapter was loaded from, to copy its config, and what it stores whole.
        saved: without ``like``, paths in the torch model of modules that the adapter stores whole.
        base: without ``like``, the name of the model that is adapted, or its folder.
        mapping: from torch's keys to the model's paths without its adapter, if the model itself does not define them;
            or its file.
        overwrite: whether to replace an existing adapter.

    Raises:
        UsageError: the model has no adapter; ``folder`` exists.
        WeightsMismatch: the model's adapter differs from ``like``; lists all differences.
        BrokenWeights: the folder cannot be written.
    """
    places = lora_places(module)
    if not places:
        raise UsageError("the model has no nnx.LoRA, and so no adapter: port.load(…, adapter=…, merge=False) adds one")
    torchs = between(None, guide_without(module, places), rename=_whole(mapping))
    values = {without(path, places): array for path, array in variables_of(module).items()}
    modules: dict[str, LoRAPlace] = {}
    arrays: Arrays = {}
    for place in places.values():
        paths = _torch_paths(torchs, place)
        modules |= dict.fromkeys(paths, place)
        stacks = [values[target] if values[target].ndim > 2 else values[target][None] for target in place.factors]
        for path, *factors in zip(paths, *stacks, strict=True):
            for name, factor in zip(factor_names(path), factors, strict=True):
                arrays[name] = np.ascontiguousarray(factor.T)
    if like is None:
        taken, config = _anew(torchs, modules, saved, base)
    else:
        with opened_adapter(like) as adapter:
            _check_like(adapter, modules)
            taken, config = adapter.whole, adapter.config.text
    arrays |= _taken(torchs, values, taken)
    check_adapter(config, {name: TensorInfo(array.shape, array.dtype) for name, array in arrays.items()})
    tensors = [_tensor(name, arrays[name]) for name in sorted(arrays)]
    write_checkpoint(folder, tensors, format="peft", config=config, overwrite=overwrite)


def _whole(mapping: Mapping | Path | str | None) -> Mapping | None:
    whole = None if mapping is None else rules_of(mapping)
    if whole is not None and not isinstance(whole, Mapping):
        raise UsageError(f"{mapping} has rules, but the whole mapping is needed here")
    return whole


def _anew(
    torchs: Mapping, modules: dict[str, LoRAPlace], saved: Sequence[str], base: str | None
) -> tuple[dict[str, str], str]:
    """What the adapter stores whole, and its config, if no folder defines them."""
    names = [name for entry in torchs.entries for name in entry.sources]
    if absent := [path for path in saved if not any(_is_within([path], name) for name in names)]:
        raise WeightsMismatch(f"the model has no {', '.join(absent)}, which the adapter should store whole")
    settings = {path: (place.rank, place.scaling) for path, place in modules.items()}
    others = {name.rpartition(".")[0] for name in names}
    dropout = max(getattr(getattr(place.lora, "dropout", None), "rate", 0.0) for place in modules.values())
    config = new_adapter_config(settings, others, saved=saved, base=base, dropout=dropout)
    return {name: PREFIX + name for name in names if _is_within(saved, name)}, config


def _torch_paths(torchs: Mapping, place: LoRAPlace) -> list[str]:
    """The path in the torch model of an adapted module; of each of several, if it is a stack of them."""
    for entry in torchs.entries:
        is_one = entry.moves == TURNED or entry.moves == (*TURNED, Stack(0, len(entry.sources)))
        if entry.targets == (f"{place.path}.kernel",) and is_one and all(n.endswith(".weight") for n in entry.sources):
            return [name.removesuffix(".weight") for name in entry.sources]
    raise WeightsMismatch(
        f"{place.path}: its kernel is not a weight of torch modules, and PEFT has no name for its adapter"
    )


def _is_within(paths: Sequence[str], name: str) -> bool:
    return any(name.startswith(f"{path}.") for path in paths)


def _taken(torchs: Mapping, values: Arrays, taken: dict[str, str]) -> Arrays:
    """Torch's tensors that the adapter stores whole, under their names in its file."""
    made: Arrays = {}
    for entry in torchs.entries:
        if not set(entry.sources) & set(taken):
            continue
        back: Entry = entry.inverse()
        for name, array in zip(back.targets, back(gather(back, values)), strict=True):
            if name in taken:
                made[taken[name]] = np.ascontiguousarray(array)
    if absent := sorted(name for name, inner in taken.items() if inner not in made):
        raise WeightsMismatch(f"the model has no {', '.join(absent)}, which the adapter stores whole")
    return made


def _check_like(adapter: Adapter, modules: dict[str, LoRAPlace]) -> None:
    there = {factors.path: factors for factors in adapter.factors}
    wrong = [f"only the model adapts {path}" for path in sorted(set(modules) - set(there))]
    wrong += [f"only the folder adapts {path}" for path in sorted(set(there) - set(modules))]
    for path in sorted(set(there) & set(modules)):
        place, factors = modules[path], there[path]
        if (place.rank, place.scaling) != (factors.rank, factors.scaling):
            wrong.append(
                f"{path} has rank {place.rank} and scaling {place.scaling:g} in the model, rank {factors.rank} "
                f"and scaling {factors.scaling:g} in the folder"
            )
    if wrong:
        raise WeightsMismatch(
            f"the model's adapter is not the one of {Path(adapter.config.origin).parent}:\n  " + "\n  ".join(wrong)
        )


def _tensor(name: str, array: np.ndarray) -> Tensor:
    return Tensor(name, array.shape, array.dtype, lambda: array)
