"""Verify a translation again from the files of its folder."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.errors import BrokenWeights, UsageError, WeightsMismatch, described
from port.mapping import Mapping, read_mapping
from port.translation.artifact.metadata import Remembered, fingerprints, remembered, torch_arrays
from port.translation.artifact.package_files import name_in, read_package
from port.translation.artifact.written_module import WrittenModule
from port.translation.frontend.single_layer import as_root, prefix_of
from port.translation.verify import Proof, prove
from port.weights.safetensors_files import open_safetensors
from port.weights.torch import with_versions
from port.weights.torch_arrays import as_torch

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class _Loaded(WrittenModule):
    """A written module, built by its own ``load``, so that this is proved too."""

    weights: Path = Path()

    def build(self, *, seed: int = 0, filled: bool = True, **options: Any) -> Any:
        from flax import nnx

        return self.code.load(self.weights, rngs=nnx.Rngs(seed), **options)


def prove_files(source: Path | str, module: torch.nn.Module, args: Any, kwargs: dict[str, Any] | None = None) -> Proof:
    """Compare a written module with the original once more: outputs, gradients, running statistics, in float64.

    Args:
        source: NAME.py, with NAME.safetensors and NAME.mapping.toml beside it; or the folder of a package, with those
            in it.
        module: the original, built as it was for the translation; it gets its weights from the files.
        args: inputs: one tensor, or the tuple of positional arguments.
        kwargs: those by name.

    Returns:
        the proof; ``proof.agrees`` says whether both sides are the same.

    Raises:
        BrokenWeights: a file that is not there, or is none of a translation's.
        WeightsMismatch: weights that are not those that were translated, or not of this original; names them.
    """
    import torch

    source = Path(source)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"the original is a torch.nn.Module, got {described(module)}")
    args, kwargs = (tuple(args) if isinstance(args, tuple | list) else (args,)), dict(kwargs or {})
    translation = read_folder(source, module)
    _fill(module, translation, source)
    return prove(as_root(module), translation.called_as(args, kwargs), args, kwargs)


def read_folder(source: Path, module: torch.nn.Module) -> WrittenModule:
    """A translation from its files.

    Args:
        source: NAME.py, with the others beside it; or the folder of a package.
        module: the original, whose ``forward`` says how it is called.

    Raises:
        BrokenWeights: a file that is not there, or is none of a translation's.
        WeightsMismatch: weights that are not those that were translated; names them.
    """
    beside = source / f"{name_in(source)}.py" if source.is_dir() else source
    weights = beside.with_suffix(".safetensors")
    mapping = read_mapping(beside.with_suffix(".mapping.toml"))
    if not isinstance(mapping, Mapping):
        raise BrokenWeights(f"{beside.with_suffix('.mapping.toml')} is no whole mapping, as port translate writes it")
    package = read_package(source, beside.stem) if source.is_dir() else None
    text = _read_source(source) if package is None else package.own_text
    with open_safetensors(weights) as checkpoint:
        told = remembered(weights, dict(checkpoint.metadata))
        values = {name: checkpoint.read(name).copy() for name in checkpoint.tensors}
    _check_same_weights(told, mapping, values, weights)
    root = as_root(module)
    signature = inspect.signature(type(root).forward)
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    calls = [
        _Loaded(
            told.name,
            text,
            mapping,
            call.boundary(signature),
            values,
            prefix=prefix_of(module),
            mixed=call.mixed,
            draws=call.draws,
            checkpointed=told.checkpointed,
            stacked=told.stacked,
            lengths=call.lengths,
            weights=weights,
            package=package,
        )
        for call in told.calls
    ]
    return replace(calls[0], others=tuple(calls[1:]))


def _read_source(source: Path) -> str:
    try:
        return source.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenWeights(f"the source {source} cannot be read: {error}") from error


def _check_same_weights(told: Remembered, mapping: Mapping, values: dict[str, Any], weights: Path) -> None:
    now = fingerprints(mapping, values, told.hash)
    names = sorted({*now, *told.fingerprints})
    if other := [name for name in names if now.get(name) != told.fingerprints.get(name)]:
        more = f" and {len(other) - 5} more" if len(other) > 5 else ""
        raise WeightsMismatch(
            f"{weights} and its mapping do not give the weights that were translated: {', '.join(other[:5])}{more}"
        )


def _fill(module: Any, translation: WrittenModule, source: Path) -> None:
    """Give the original the weights of the files; what Flax has no home for stays as it was built."""
    own = {name: tensor for name, tensor in module.state_dict().items() if hasattr(tensor, "shape")}
    arrays = torch_arrays(translation.mapping, translation.values)
    wrong = [name for name in arrays if name not in own or tuple(own[name].shape) != arrays[name].shape]
    homeless = {name for entry in translation.mapping.entries for name in entry.sources} - set(arrays)
    wrong += sorted(set(own) - set(arrays) - homeless)
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise WeightsMismatch(
            f"the files beside {source} are of another model than {type(module).__qualname__} as it is built here: "
            f"{', '.join(wrong[:5])}{more}"
        )
    state = {name: as_torch(array) for name, array in arrays.items()}
    module.load_state_dict(with_versions(state, module), strict=False)
