"""torch.nn.Linear ⇄ flax.nnx.Linear."""

from port.mapping import Permute
from port.pairs.pair import LayerPair, ParamPair

LINEAR = LayerPair(
    torch="torch.nn.Linear",
    flax="flax.nnx.Linear",
    params=(
        ParamPair("weight", "kernel", (Permute((1, 0)),)),  # (out, in) → (in, out)
        ParamPair("bias", "bias"),
    ),
    notes=("W1", "W24"),
)

PAIRS = (LINEAR,)
