"""Custom gradients of torch.autograd.Function: written where a slope expresses them, reported where none does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

import port

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


class Reversed(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.scale * gradient, None


reverse = Reversed.apply


class Swish(Function):
    """Saves memory; its gradient is the autograd gradient of its forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(x)
        return gradient * gate * (1 + x * (1 - gate))


class Spike(Function):
    """A step with a surrogate gradient, written with setup_context."""

    @staticmethod
    def forward(x: Tensor, width: float) -> Tensor:
        return (x > 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.width = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < ctx.width).to(gradient.dtype), None


class Product(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.t() @ x


class Doubled(Product):
    """The same forward with another gradient, which is not an elementwise slope."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return 2 * gradient @ weight, gradient.t() @ x


class Clipped(Function):
    """A gradient that is not linear."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.sign(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return F.hardtanh(gradient)


class Clamped(Function):
    """Within ±10 its gradient is that of its forward; outside, it is not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clamp(-10, 10)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class ClippedIfLarge(Clamped):
    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.clamp(-5, 5)


class Rounded(Function):
    """Rounds under a mask, and turns gradients off for that, needlessly."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.where(mask, x.round(), x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class Nested(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return Swish.apply(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


class Checkpoint(Function):
    """Recomputes a part in its backward, as diffusion models do."""

    @staticmethod
    def forward(ctx: Any, run: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.run, ctx.given = run, (x, parameters)
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, parameters = ctx.given
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            result = ctx.run(x)
        return (None, *torch.autograd.grad(result, (x, *parameters), gradient))


class Wrapped(nn.Module):
    """Layers on both sides: the function between them must not leave gradients turned off."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.before, self.behind, self.call = nn.Linear(4, 4), nn.Linear(4, 3), call

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.call(self.before(x)))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(Checkpoint.apply(self.part, x, *self.part.parameters()))


def made_within(x: Tensor) -> Tensor:
    class Halved(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient / 2

    return Halved.apply(x)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda x: Clamped.apply(x), id="beyond a bound"),
        pytest.param(lambda x: Rounded.apply(x, x > 0), id="a mask, no_grad within"),
        pytest.param(lambda x: Nested.apply(x), id="one in another"),
        pytest.param(made_within, id="made in forward"),
        pytest.param(
            lambda x: torch.softmax(Reversed.apply(x.masked_fill(x > 0.3, -torch.inf), 0.7), -1), id="infinite"
        ),
    ],
)
@pytest.mark.sweep
def test_more_of_ones_own(call: Any) -> None:
    made = port.translate(Wrapped(call), 40 * torch.randn(5, 4, generator=torch.Generator().manual_seed(0)))
    assert made.proof is not None and made.proof.agrees, f"{made.proof}\n{made.source}"
    assert not made.own_gradients


@pytest.mark.sweep
def test_a_part_that_is_computed_again() -> None:
    made = port.translate(Checkpointed(), torch.randn(5, 4))
    assert made.proof is not None and made.proof.agrees, str(made.proof)


class Adversarial(nn.Module):
    """Two heads, one of which is trained against the features."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.classes, self.domains = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = Swish.apply(self.features(x))
        return self.classes(h), self.domains(reverse(h, 0.7))


class Spiking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        potential = self.linear(x)
        for _ in range(2):
            spikes = Spike.apply(potential - 0.1, 1.5)
            potential = 0.9 * potential - spikes + self.linear(x)
        return spikes, potential


class Calls(nn.Module):
    def __init__(self, function: type[Function], *shape: int) -> None:
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList([torch.randn(shape)] if shape else [])

    def forward(self, x: Tensor) -> Tensor:
        return self.function.apply(x, *self.weights)


@pytest.mark.parametrize(
    "module", [Adversarial, Spiking, lambda: Calls(Product, 3, 4)], ids=["reversed", "step", "own"]
)
@pytest.mark.sweep
def test_a_gradient_of_ones_own(module: Any) -> None:
    before = [vars(cls).get("forward") for cls in (Reversed, Swish, Spike, Product, Doubled)]
    made = port.translate(module(), torch.randn(5, 4))
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    assert any(row.what == "gradients in training" for row in made.proof.rows)
    assert not made.own_gradients
    assert [vars(cls).get("forward") for cls in (Reversed, Swish, Spike, Product, Doubled)] == before


@pytest.mark.sweep
def test_its_forward_alone_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from port.translation.frontend import autograd_functions as own_gradients

    monkeypatch.setattr(own_gradients._Traced, "_kind", lambda *_: "as it is")
    made = port.translate(Adversarial(), torch.randn(5, 4))
    assert made.proof is not None and not made.proof.agrees
    wrong = {row.what for row in made.proof.rows if not row.agrees}
    assert "gradients in training" in wrong and "outputs in training" not in wrong


@pytest.mark.parametrize(("function", "shape"), [(Doubled, (3, 4)), (Clipped, ())], ids=["no slope", "not linear"])
@pytest.mark.sweep
def test_what_cannot_be_written_is_told(function: type[Function], shape: tuple[int, ...]) -> None:
    made = port.translate(Calls(function, *shape), torch.randn(5, 4))
    assert made.proof is not None and not made.proof.agrees
    assert made.own_gradients[0].startswith(f"{function.__name__} ({__file__}:")
    assert "its custom backward pass is not translated" in str(made.proof)


@pytest.mark.sweep
def test_what_is_so_only_for_small_gradients_is_told() -> None:
    made = port.translate(Calls(ClippedIfLarge), torch.randn(5, 4))
    assert made.own_gradients[0].startswith("ClippedIfLarge (")
