"""Both models as they run: the layout that Flax's takes, and whether one goes through float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from flax import linen, nnx

from port.errors import UsageError
from port.matching.sides import both_sides

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning"),
]


class Net(torch.nn.Module):
    def __init__(self, table: Any = None) -> None:
        super().__init__()
        self.layer, self.table = torch.nn.Linear(4, 2), table

    def forward(self, x: Any) -> Any:
        assert x.shape[-1] == 4
        return self.layer(x if self.table is None else x + self.table())


class NnxNet(nnx.Module):
    def __init__(self, table: Any = None) -> None:
        self.layer, self.table = nnx.Linear(4, 2, rngs=nnx.Rngs(0)), table

    def __call__(self, x: Any) -> Any:
        return self.layer(x if self.table is None else x + self.table())


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("torch_table", "flax_table", "is_narrowed"),
    [
        (None, None, False),
        (lambda: torch.ones(4), lambda: jnp.ones(4), False),  # whole numbers; float64 in Flax
        (lambda: torch.sin(torch.arange(4.0)), None, False),  # in the model's precision, as all that it makes
        (lambda: torch.sin(torch.arange(4, dtype=torch.float32)), None, True),
        (None, lambda: jnp.sin(jnp.arange(4, dtype=jnp.float32)), True),
    ],
)
def test_numbers_of_its_own_in_float32_are_seen(torch_table: Any, flax_table: Any, is_narrowed: bool) -> None:
    sides = both_sides(Net(torch_table), NnxNet(flax_table), torch.rand(3, 4), None, None, None)
    assert sides.is_narrowed == is_narrowed
    assert sides.own.order == {"layer": 0} and not torch.equal(
        torch.as_tensor(sides.torch.weights["layer.weight"]), Net().layer.weight.detach()
    )


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_table_that_torch_holds_in_float32_is_seen(is_saved: bool) -> None:
    net = Net()
    net.register_buffer("steps", torch.arange(4.0), persistent=is_saved)
    assert not both_sides(net, NnxNet(), torch.rand(3, 4), None, None, None).is_narrowed
    net.register_buffer("sines", torch.sin(torch.arange(4.0)), persistent=is_saved)
    assert both_sides(net, NnxNet(), torch.rand(3, 4), None, None, None).is_narrowed


class TorchAudio(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(3, 2, 3)

    def forward(self, x: Any) -> Any:
        return self.conv(x)


class LinenAudio(linen.Module):
    """It takes its channels first, as torch's, and says so in a way of its own."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        if x.shape[1:] != (3, 7):
            raise ValueError(f"3 channels of 7 are expected, not {x.shape[1:]}")
        return linen.Conv(2, (3,), padding="VALID", name="conv")(x.mT).mT


def test_a_model_that_takes_its_channels_first() -> None:
    module, x = LinenAudio(), torch.rand(2, 3, 7)
    variables = module.init(jax.random.key(0), jnp.asarray(x.numpy()))
    sides = both_sides(TorchAudio(), (module, variables), x, None, None, None)
    assert sides.options["channels_last"] is False and not sides.layout.moved
    with pytest.raises(UsageError, match=r"the Flax model does not take the inputs .* 3 channels of 7 are expected"):
        both_sides(TorchAudio(), (module, variables), torch.rand(2, 3, 8), None, None, None)


def test_inputs_that_a_model_does_not_take() -> None:
    with pytest.raises(UsageError, match="does not take the inputs"):
        both_sides(Net(), NnxNet(), torch.rand(3, 5), None, None, None)
