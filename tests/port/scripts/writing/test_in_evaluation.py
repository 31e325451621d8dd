"""Parts of a model in evaluation mode are named where the mode makes a difference, the outermost alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from port.errors import UsageError
from port.scripts.writing.in_evaluation import in_evaluation


def test_the_outermost_parts_in_which_it_matters() -> None:
    teacher = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)))
    both = nn.ModuleDict({"teacher": teacher, "plain": nn.Linear(2, 2), "student": nn.Dropout(0.5)})
    assert in_evaluation(both) == []
    both["teacher"].eval()
    both["plain"].eval()
    assert in_evaluation(both) == ["model.teacher"]
    both["teacher"].train()
    both["teacher"][1].eval()
    assert in_evaluation(both) == ["model.teacher.layers[1]"]


class Parts(nn.Module):
    """A Sequential, a list, a dict, and a layer of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.BatchNorm1d(4)))
        self.listed = nn.ModuleList([nn.BatchNorm1d(4)])
        self.named = nn.ModuleDict({"a": nn.BatchNorm1d(4)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.named["a"](self.listed[0](self.trunk(x)))


@pytest.mark.sweep
def test_they_are_said_as_the_translated_model_has_them() -> None:
    import jax.numpy as jnp
    from flax import nnx

    import port

    parts = Parts()
    given = port.translate(parts, (torch.randn(5, 3),), name="model")
    for one in (parts.trunk[1], parts.trunk[2][0], parts.listed[0], parts.named["a"]):
        one.eval()
    model = given.build()
    model.train()
    said = in_evaluation(parts)
    trunk = "model.trunk.layers"
    assert said == [f"{trunk}[1]", f"{trunk}[2].layers[0]", "model.listed[0]", "model.named['a']"]
    for expression in said:
        eval(expression, {"model": model}).eval()
    model(jnp.ones((5, 3)))
    moved = [path for path, leaf in nnx.to_flat_state(nnx.state(model)) if path[-1] == "mean" and leaf.any()]
    assert not moved


def test_a_part_of_one_layer_is_refused() -> None:
    layer = nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8))
    layer[0].dropout1.eval()
    with pytest.raises(UsageError, match=r"0\.dropout1 is in evaluation mode while the rest of 0 trains"):
        in_evaluation(layer)
