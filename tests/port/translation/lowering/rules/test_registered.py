"""Operators, a layer and a loss of a person's own, by the guide's pairs: written, proved, and a wrong pair seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import port
from models.own import own_pairs
from port.errors import NoPair, UsageError
from port.moves import Permute
from port.pairs import LayerPair, OperatorPair, ParamPair
from port.pairs.ops.axes import Each
from port.translation.audit import audit

EXTREMES = OperatorPair.of(
    "torch.ops.my_lib.extremes(x, dim, keepdim)",
    "(jnp.min(x, dim, keepdims=keepdim), jnp.max(x, dim, keepdims=keepdim))",
)


@pytest.fixture(autouse=True)
def pairs() -> Iterator[None]:
    with own_pairs():
        import my_pkg.ops  # noqa: F401

        torch.manual_seed(2)
        yield


_GIVEN = lambda gate: {"inputs": 6, "outputs": 4}  # noqa: E731


class Net(torch.nn.Module):
    """Both ways to call an operator of one's own, on images and on rows; a layer and a loss."""

    def __init__(self) -> None:
        from my_pkg.layers import FocalLoss, Gate

        super().__init__()
        self.conv = torch.nn.Conv2d(3, 6, 3)
        self.gate = Gate(6, 4)
        self.loss = FocalLoss(1.5)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        from my_pkg.ops import swish

        kernels = swish(self.conv(x), 1.5)  # the name by which a pair imports its functions
        rows = torch.ops.my_lib.rounded(3 * kernels).mean((2, 3)) * kernels.mean((2, 3))
        return self.loss(self.gate(torch.ops.my_lib.swish(rows, 0.5)), labels)


def translated(net: torch.nn.Module | None = None) -> Any:
    return port.translate(net or Net(), (torch.randn(5, 3, 8, 9), torch.randint(4, (5,))))


@pytest.mark.sweep
def test_they_are_written_as_the_pairs_say_and_proved() -> None:
    made = translated()
    assert made.proof.agrees, str(made.proof)
    assert made.unwritten == ()
    for line in (
        "import my_pkg.in_jax\n",
        "from my_pkg import in_jax as kernels\n",
        "self.gate = my_pkg.in_jax.Gate(inputs=6, outputs=4, param_dtype=param_dtype, rngs=rngs)",
        "* nnx.sigmoid(1.5 *",
        "kernels.rounded(",
        "my_pkg.in_jax.focal_loss(",
    ):
        assert line in made.source, made.source
    assert "kernels = " not in made.source  # a variable of the original's, which would hide the import
    assert made.transposes == 0  # element by element: the channels stay last
    assert [entry.sources for entry in made.mapping.entries if entry.targets == ("gate.kernel",)] == [("gate.weight",)]


@pytest.mark.sweep
def test_without_pairs_each_is_marked() -> None:
    port.pairs.registered._pairs.clear()
    made = translated()
    assert {item.what for item in made.unwritten} == {"my_lib.swish", "my_lib.rounded"}
    assert all("no pair covers this operator" in item.why for item in made.unwritten)


@pytest.mark.sweep
def test_one_with_several_results_and_an_axis_is_in_torchs_order() -> None:
    class Extremes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            low, high = torch.ops.my_lib.extremes(x.permute(0, 2, 1), 1)
            return high - 2 * low

    port.register(EXTREMES)
    made = port.translate(Extremes(), (torch.randn(4, 5, 6),))
    assert made.proof.agrees, str(made.proof)
    assert "jnp.max(" in made.source


@pytest.mark.parametrize(
    "wrong",
    [
        OperatorPair.of("torch.ops.my_lib.swish(x, beta)", "x * jax.nn.sigmoid(x * -beta)", axes=Each()),
        # Its values are right, and its gradient is zero.
        OperatorPair.of("torch.ops.my_lib.rounded(x)", "jnp.round(x)", axes=Each()),
        LayerPair("my_pkg.layers.FocalLoss", "my_pkg.in_jax.focal_loss", channels=1, channel_outputs=False),
    ],
    ids=["a sign", "a gradient", "options forgotten"],
)
@pytest.mark.sweep
def test_a_wrong_pair_is_seen(wrong: Any) -> None:
    port.register(wrong)
    proof = translated().proof
    assert not proof.agrees
    assert not proof.failed  # it runs, and gives something else


def test_a_parameter_that_its_pair_forgets_is_named() -> None:
    port.register(LayerPair("my_pkg.layers.Gate", "my_pkg.in_jax.Gate", arguments=_GIVEN))
    with pytest.raises(NoPair, match=r"weight: in my_pkg\.layers\.Gate"):
        translated()


def test_an_argument_that_its_pair_forgets_is_named() -> None:
    kernel = (ParamPair("weight", "kernel", (Permute((1, 0)),)),)
    port.register(LayerPair("my_pkg.layers.Gate", "my_pkg.in_jax.Gate", kernel, arguments=lambda gate: {"inputs": 6}))
    with pytest.raises(NoPair, match=r"my_pkg\.in_jax\.Gate rejects the pair's arguments: missing a required argument"):
        translated()


@pytest.mark.sweep
def test_a_pair_of_ones_own_goes_before_the_projects_rules() -> None:
    class Catted(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, y], 1)

    own = OperatorPair("torch.cat", "aten.cat", "torch.cat(tensors, dim)", "jnp.concat(tensors, axis=dim)")
    inputs = torch.randn(3, 2), torch.randn(3, 4)
    assert "jnp.concatenate(" in port.translate(Catted(), inputs).source
    port.register(own)
    made = port.translate(Catted(), inputs)
    assert "jnp.concat((x, y), axis=1)" in made.source, made.source
    assert made.proof.agrees


def test_where_its_condition_does_not_hold_the_one_before_it_speaks() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.my_lib.swish(x, 2.0) + torch.ops.my_lib.swish(x, 1.0)

    says, given = "torch.ops.my_lib.swish(x, beta)", {"imports": ("import my_pkg.in_jax",)}
    port.register(OperatorPair.of(says, "jax.nn.silu(x)", only_if="my_pkg.in_jax.is_one(beta)", **given))
    made = port.translate(Scaled(), (torch.randn(3, 4),))
    assert "nnx.silu(x)" in made.source
    assert "nnx.sigmoid(2.0 * x)" in made.source
    assert made.proof.agrees


@pytest.mark.sweep
def test_the_audit_knows_them() -> None:
    rows = {row.name: row for row in audit(Net(), (torch.randn(5, 3, 8, 9), torch.randint(4, (5,)))).rows}
    assert rows["my_lib.swish"].is_known
    assert rows["my_pkg.layers.FocalLoss"].twin == "my_pkg.in_jax.focal_loss"
    port.pairs.registered._pairs.clear()
    rows = {row.name: row for row in audit(Net(), (torch.randn(5, 3, 8, 9), torch.randint(4, (5,)))).rows}
    assert not rows["my_lib.swish"].is_known


def test_a_twin_that_no_source_can_import_is_named() -> None:
    from my_pkg.in_jax import Gate

    class Local(Gate):
        pass

    port.register(LayerPair("my_pkg.layers.Gate", Local, arguments=_GIVEN))
    with pytest.raises(NoPair, match=r"the written source cannot import its twin .*<locals>\.Local: define it"):
        translated()


def test_an_operator_that_writes_in_place_is_refused() -> None:
    class Written(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            torch.ops.my_lib.doubled_(y)
            return y

    with pytest.raises(NoPair, match=r"my_lib\.doubled_\.default writes to its arguments.*mutates_args=\(\)"):
        port.translate(Written(), (torch.randn(2, 3),))


def test_two_imports_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match=r"gives the name kernels, by which the pair of .*\.rounded imports"):
        port.register(
            OperatorPair.of("torch.ops.my_lib.swish(x, beta)", "kernels.swish(x)", imports=("import kernels",))
        )
