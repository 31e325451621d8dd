"""torch.nn.BatchNorm1d, BatchNorm2d, BatchNorm3d ⇄ port.nn.BatchNorm."""

from port.pairs.pair import LayerPair, ParamPair


def _batch_norm(spatial: int) -> LayerPair:
    return LayerPair(
        torch=f"torch.nn.BatchNorm{spatial}d",
        flax="port.nn.BatchNorm",
        params=(
            ParamPair("weight", "scale"),
            ParamPair("bias", "bias"),
            ParamPair("running_mean", "mean"),
            ParamPair("running_var", "var"),
            ParamPair("num_batches_tracked", "num_batches_tracked"),
        ),
        notes=("W7", "W8", "W9"),
    )


PAIRS = tuple(_batch_norm(spatial) for spatial in (2, 1, 3))
