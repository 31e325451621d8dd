"""Lower direct reads of parameters, buffers and layers' weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from port.errors import NoPair
from port.moves import Permute
from port.pairs import pairs_of_torch
from port.translation.ir import syntax
from port.translation.ir.expr import held
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout, torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def lower_held(stage: LoweringContext, value: Value, path: str) -> None:
    """Set the layout and the expression ``self.path[...]`` of a parameter or a buffer.

    Raises:
        NoPair: it is read, and is sparse or has no equivalent array in its layer's twin.
    """
    owner, _, name = path.rpartition(".")
    layer = stage.owner(path)
    if stage.is_read(value) and is_sparse(getattr(stage.root.get_submodule(owner), name)):
        raise NoPair(
            f"{type(stage.root).__qualname__}.{path} is a sparse tensor, and is read: JAX's layers and operators take "
            "dense arrays; convert it where it is created (.to_dense())"
        )
    if layer is None:
        # The module's own parameter: its layout is free.
        stage.layouts[value] = stage.chosen_layout(value) or torchs(value.rank)
        stage.sources.add(value)
        stage.literals[value] = variable(owner, name)
        return
    inner = path[len(layer) :].lstrip(".")
    module = stage.root.get_submodule(layer)
    for param in pairs_of_torch(module)[0].params_of_torch(module):
        if param.torch_names == (inner,) and len(param.flax_names) == 1:
            layout = torchs(value.rank)
            for move in param.moves:
                if not isinstance(move, Permute) or layout != torchs(value.rank):
                    if not stage.is_read(value):
                        break
                    raise NoPair(f"{path} is read directly, and its twin stores it in another form ({move})")
                layout = Layout(move.axes)
            stage.layouts[value] = layout
            stage.literals[value] = variable(layer, param.flax_names[0])
            return
    stage.layouts[value] = torchs(value.rank)
    stage.literals[value] = variable(layer, inner)


def variable(path: str, name: str) -> syntax.Expr:
    """Return ``self.path.name[...]``, the array of a variable."""
    return syntax.Subscript(held(path, name), syntax.Const(...))


def is_sparse(tensor: Any) -> bool:
    """Whether a tensor has a sparse layout."""
    return str(tensor.layout).startswith("torch.sparse")
