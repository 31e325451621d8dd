"""The options of a conversion, in one object that every way of converting accepts."""

from __future__ import annotations

from collections.abc import Mapping as Tree
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

from port.errors import UnknownChoice, UsageError
from port.mapping import Guide, Mapping, Rules, guide_of_flax, guide_of_torch, rules_of
from port.mapping.folding import folds
from port.moves.scales import FLOATS
from port.weights.carrying import floating
from port.weights.constructor_arguments import SaidArguments
from port.weights.mesh_cut import MeshCut, mesh_axes_of, sharding_table

Rename = Tree[str, str] | Rules | Mapping | Path | str | None
Shapes = Tree[str, tuple[int, ...]]


@dataclass(frozen=True)
class Options:
    """How weights are converted, and for `port.weights.conversion.convert` how the result is written.

    Attributes:
        torch: a torch module (on the meta device: only its structure is read), or a `Guide`; stored as the guide.
        flax: an nnx module, a Linen module (with ``inputs``), a tree of variables, or a `Guide`; stored as the guide.
        rename: where names differ, from torch's to Flax's: see `port.mapping.between`; stored as what was read from it.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it.
        reverse: from Flax to torch: the mapping is still written from torch to Flax.
        partial: the weights may be a part of the model's: what they lack is listed.
        key: the key of the state dict in a training checkpoint, if it has several.
        adapter: a PEFT folder of a LoRA adapter, which is merged into torch's weights before they are converted.
        widen: the dtype that eight-bit weights in torch's checkpoint are widened to, by their scales; in reverse, the
            dtype that they were widened to and keep, instead of being quantised back.
        dtype: the dtype to cast floating tensors to; by default each keeps its own, bit for bit.
        format: the result's format, as in `port.weights.formats`; by default from its suffix.
        max_shard_size: the most bytes of one file of the result; safetensors and hf only.
        mesh: the mesh that a folder of orbax is written for, as in ``"fsdp=8"`` or ``"data=2,fsdp=4"``: each device's
            part of a tensor can be read alone; stored as a `MeshCut`.
        sharding: of each tensor on it, as in `port.load`, or strings of a table: see
            `port.weights.mesh_cut.sharding_table`. By default a mesh of one axis shards a tensor along its longest
            axis that the devices divide.
        like: for hf, the model's folder to copy config and tokenizer files from.
        overwrite: whether to replace the result and ``save_mapping``.
        save_mapping: the path for the mapping from torch to Flax, written with the result: both are, or neither.
        arguments: the Flax module's constructor arguments, which the result stores: the ``load`` of a source that
            `port.translate` wrote constructs it with them.
        inputs: an example input of a Linen module, or a tuple of its arguments.

    Raises:
        UsageError: inconsistent options; an invalid mapping file or model.
        NoPair: a model whose structure cannot be determined.
    """

    torch: Any = None
    flax: Any = None
    rename: Any = None
    fold: Shapes | None = None
    reverse: bool = False
    partial: bool = False
    key: str | None = None
    adapter: Path | str | None = None
    widen: str | None = None
    dtype: str | None = None
    format: str | None = None
    max_shard_size: int | None = None
    mesh: Any = None
    sharding: Any = None
    like: Path | str | None = None
    overwrite: bool = False
    save_mapping: Path | str | None = None
    arguments: SaidArguments = field(default_factory=SaidArguments)
    inputs: InitVar[Any] = None

    def __post_init__(self, inputs: Any) -> None:
        if self.dtype is not None and self.dtype not in floating():
            raise UnknownChoice("dtype", self.dtype, floating())
        if self.widen is not None and self.widen not in FLOATS:
            raise UnknownChoice("dtype to widen to", self.widen, FLOATS)
        if self.adapter is not None and self.reverse:
            raise UsageError("an adapter is merged into torch's weights, on the way to Flax: leave reverse out")
        if self.sharding is not None and self.mesh is None:
            raise UsageError("sharding says which mesh axes a tensor is sharded by: pass the mesh too, as in fsdp=8")
        if isinstance(self.mesh, str):
            axes = mesh_axes_of(self.mesh)
            texts = isinstance(self.sharding, list | tuple) and all(isinstance(each, str) for each in self.sharding)
            sharding = sharding_table(self.sharding, axes) if texts else self.sharding
            object.__setattr__(self, "mesh", MeshCut(axes, sharding))
        object.__setattr__(self, "rename", rules_of(self.rename))
        object.__setattr__(self, "fold", folds(self.fold))
        object.__setattr__(self, "torch", None if self.torch is None else guide_of_torch(self.torch))
        object.__setattr__(self, "flax", None if self.flax is None else guide_of_flax(self.flax, inputs))

    @property
    def rules(self) -> Rules | Mapping:
        """The rules about names, read."""
        return self.rename

    @property
    def guides(self) -> tuple[Guide | None, Guide | None]:
        """The guides of the torch model and of the Flax model."""
        return self.torch, self.flax
