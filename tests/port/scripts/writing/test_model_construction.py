"""The construction that a written model.py says, with other expressions for some of its arguments."""

from __future__ import annotations

from port.scripts.writing.model_construction import construction_in

MODEL = """
class Net(nnx.Module):
    def __init__(self, inputs, width, layers=2, *, dtype=None, rngs):
        self.inputs = inputs


class FromBatchToLoss(nnx.Module):
    def __init__(self, net, *, rngs):
        self.net = net


def load(path, *, rngs=None, **options):
    options = {"rngs": rngs or nnx.Rngs(0), **options}
    options = saved_arguments(path, FromBatchToLoss, options, net=Net(inputs=5, width=12, **options))
    return FromBatchToLoss(**options)
"""


def test_arguments_are_replaced_or_added() -> None:
    made = construction_in(MODEL)
    assert made is not None and made.classes == ("FromBatchToLoss", "Net")
    assert made.takes["net"] == {"inputs", "width", "layers", "dtype", "rngs"}
    assert made.source({}) == "FromBatchToLoss(net=Net(inputs=5, width=12, **options), **options)"
    said = made.source({("net", "width"): "2 * args.hidden", ("net", "layers"): "args.depth"})
    assert said == "FromBatchToLoss(net=Net(inputs=5, width=2 * args.hidden, layers=args.depth, **options), **options)"
    assert made.source({}) == "FromBatchToLoss(net=Net(inputs=5, width=12, **options), **options)"


def test_a_model_that_is_given_nothing() -> None:
    assert construction_in("def load(path):\n    return FromBatchToLoss()\n") is None
