"""Verify a translation from its files."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.errors import BrokenWeights, UsageError, WeightsMismatch, described
from port.mapping import Mapping, read_mapping
from port.translation.artifact.metadata import TranslationMetadata, fingerprints, read_metadata, torch_arrays
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
    """A written module that is built by its own ``load``, so that the proof covers ``load`` too."""

    weights: Path = Path()

    def build(self, *, seed: int = 0, filled: bool = True, **options: Any) -> Any:
        from flax import nnx

        return self.code.load(self.weights, rngs=nnx.Rngs(seed), **options)


def prove_files(source: Path | str, module: torch.nn.Module, args: Any, kwargs: dict[str, Any] | None = None) -> Proof:
    """Compare a written module on disk with the original: outputs, gradients, running statistics, in float64.

    Args:
        source: NAME.py, in one folder with NAME.safetensors and NAME.mapping.toml; or the folder of a package that
            contains these.
        module: the original, constructed as for the translation; it gets its weights from the files.
        args: inputs: one tensor, or the tuple of positional arguments.
        kwargs: keyword inputs.

    Returns:
        The proof; ``proof.agrees`` is whether both sides agree.

    Raises:
        BrokenWeights: a file is missing, or is not part of a translation.
        UsageError: ``module`` is not a torch module.
        WeightsMismatch: the weights changed since the translation, or belong to another model; the message names them.
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
    """Read a translation from its files.

    Args:
        source: NAME.py, in one folder with the other files; or the folder of a package.
        module: the original; its ``forward`` has the signature.

    Raises:
        BrokenWeights: a file is missing, or is not part of a translation.
        WeightsMismatch: the weights changed since the translation; the message names them.
    """
    stem = source / f"{name_in(source)}.py" if source.is_dir() else source
    weights = stem.with_suffix(".safetensors")
    mapping = read_mapping(stem.with_suffix(".mapping.toml"))
    if not isinstance(mapping, Mapping):
        raise BrokenWeights(
            f"{stem.with_suffix('.mapping.toml')} is not a complete mapping from port translate: translate again"
        )
    package = read_package(source, stem.stem) if source.is_dir() else None
    text = _read_source(source) if package is None else package.own_text
    with open_safetensors(weights) as checkpoint:
        metadata = read_metadata(weights, dict(checkpoint.metadata))
        values = {name: checkpoint.read(name).copy() for name in checkpoint.tensors}
    _check_same_weights(metadata, mapping, values, weights)
    root = as_root(module)
    signature = inspect.signature(type(root).forward)
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    calls = [
        _Loaded(
            metadata.name,
            text,
            mapping,
            call.boundary(signature),
            values,
            prefix=prefix_of(module),
            mixed=call.mixed,
            draws=call.draws,
            checkpointed=metadata.checkpointed,
            stacked=metadata.stacked,
            lengths=call.lengths,
            weights=weights,
            package=package,
        )
        for call in metadata.calls
    ]
    return replace(calls[0], others=tuple(calls[1:]))


def _read_source(source: Path) -> str:
    try:
        return source.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenWeights(f"the source {source} cannot be read: {error}") from error


def _check_same_weights(metadata: TranslationMetadata, mapping: Mapping, values: dict[str, Any], weights: Path) -> None:
    now = fingerprints(mapping, values, metadata.hash)
    names = sorted({*now, *metadata.fingerprints})
    if other := [name for name in names if now.get(name) != metadata.fingerprints.get(name)]:
        more = f" and {len(other) - 5} more" if len(other) > 5 else ""
        raise WeightsMismatch(
            f"{weights} and its mapping do not give the weights that were translated: {', '.join(other[:5])}{more}"
        )


def _fill(module: Any, translation: WrittenModule, source: Path) -> None:
    """Load the files' weights into the original; tensors without a place in Flax keep their values.

    Raises:
        WeightsMismatch: names or shapes do not match.
    """
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
