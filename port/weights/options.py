"""What a person says of how weights are carried over, in one object that every way of carrying them takes."""

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
    """How weights go from one side to the other, and for `port.weights.conversion.convert` how the result is written.

    Attributes:
        torch: a torch module to go by (on the meta device: nothing but its structure is looked at), or a `Guide`; held
            as the guide.
        flax: an nnx module, a Linen module (with ``inputs``), a tree of variables, or a `Guide`; held as the guide.
        rename: where names differ, from torch's to Flax's: see `port.mapping.between`; held as what was read of it.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it.
        reverse: from Flax to torch: the mapping is still told from torch to Flax.
        partial: the weights may be a part of the model's: what they lack is listed.
        key: where in a training checkpoint the state dict is, if it holds several.
        adapter: a PEFT folder of a LoRA adapter, which is merged into torch's weights before they go over.
        widen: the dtype of what the weights of eight bits in torch's checkpoint are widened to, by their scales; in
            reverse, how they were widened and stay, where they would be quantised back.
        dtype: what to cast floating tensors to; by default each keeps its own, bit for bit.
        format: of the result, as `port.weights.formats` has them; by default as its name's suffix says.
        max_shard_size: bytes of one file of the result, at most; safetensors and hf only.
        mesh: what a folder of orbax is written for, as in ``"fsdp=8"`` or ``"data=2,fsdp=4"``: each device's part of a
            tensor can be read alone; held as a `MeshCut`.
        sharding: of each tensor on it, as `port.load` takes it, or texts of a table: see
            `port.weights.mesh_cut.sharding_table`. By default a mesh of one axis cuts a tensor along the longest of its
            axes that the devices divide.
        like: for hf, the model's folder whose config and tokenizer files are taken along.
        overwrite: whether the result and ``save_mapping`` may be there already.
        save_mapping: where the mapping from torch to Flax is written, beside the result: both are, or neither.
        arguments: what the Flax module's constructor is given, which the result remembers: the ``load`` of a source
            that `port.translate` wrote constructs it so.
        inputs: an example input of a Linen module, or a tuple of its arguments.

    Raises:
        UsageError: options that cannot be; a mapping file or a model that is not understood.
        NoPair: a model whose structure cannot be told.
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
            raise UsageError("sharding says by which axes of a mesh a tensor is cut: say the mesh too, as in fsdp=8")
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
        """What is said of names, read."""
        return self.rename

    @property
    def guides(self) -> tuple[Guide | None, Guide | None]:
        """What is known of the torch model and of the Flax model."""
        return self.torch, self.flax
