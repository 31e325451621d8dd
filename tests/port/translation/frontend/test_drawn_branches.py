"""Layers that a random number drops: both branches run and the number selects; anything else is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import port
from port.errors import NoPair
from port.parity.sides.copies import copied
from port.translation.frontend.drawn_branches import select_drawn_branches
from port.translation.verify import prove

from ..layer_drop_nets import MODELS, WIDTH, Commented, Decorated, Deep, Named, Stack

MADE = {name: lambda made=made: made(dropout=0.2) for name, made in MODELS.items()} | {"deep": Deep}


def example() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(5, WIDTH)


@pytest.mark.sweep
@pytest.mark.parametrize("name", MADE)
def test_it_is_the_same_in_both_modes(name: str) -> None:
    """Dropouts within a skipped layer draw on both sides."""
    torch.manual_seed(0)
    proof = port.translate(MADE[name](), example()).proof
    assert proof is not None and proof.agrees and proof.precision == "float64", proof


@pytest.mark.sweep
def test_it_reads_as_the_original_does() -> None:
    source = port.translate(Named(), example(), check=False).source
    assert "skip = jax.random.uniform(self.rngs()) < 0.4" in source
    assert source.count("for layer in self.layers:") == 2  # in either mode
    assert source.count("x = jnp.where(jnp.logical_not(skip), x + layer(x)[0], x)") == 1
    assert source.count("x = x + layer(x)[0]") == 1


def test_layers_that_only_training_leaves_out_are_a_loop_in_either_mode() -> None:
    source = port.translate(Commented(layers=2), example(), check=False).source
    assert source.count("for layer in self.layers:") == 2
    assert "self.layers[0]" not in source


FAULTS = {
    "the wrong branch": ("jnp.where(jnp.logical_not(skip), ", "jnp.where(skip, "),
    "never left out": ("< 0.4", "< 0.0"),
    "a layer more": ("jnp.logical_not(skip)", "jnp.logical_not(skip) | True"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.sweep
def test_a_planted_fault_is_found(fault: str) -> None:
    module = Named(rate=0.5 if fault == "the wrong branch" else 0.4)
    done = port.translate(module, example(), check=False)
    before, after = FAULTS[fault]
    assert before in done.source
    proof = prove(module, replace(done, source=done.source.replace(before, after)), (example(),), {})
    assert not proof.agrees
    assert all(row.agrees for row in proof.rows if "evaluation" in row.what)


@pytest.mark.parametrize("before, after", [("< 0.4", "< 0.0"), ("* 3.0 *", "* 2.0 *")])
@pytest.mark.sweep
def test_a_planted_fault_behind_decorators_is_found(before: str, after: str) -> None:
    module = Decorated()
    done = port.translate(module, example(), check=False)
    assert before in done.source, done.source
    proof = prove(module, replace(done, source=done.source.replace(before, after)), (example(),), {})
    assert not proof.agrees


@pytest.mark.parametrize("name", MODELS)
def test_with_numbers_it_does_what_the_original_does(name: str) -> None:
    """Outputs, gradients and draws are the same, whichever layers are skipped."""
    torch.manual_seed(0)
    module, x = MODELS[name](), example()
    selecting = copied(module)
    select_drawn_branches(selecting, numbers=True)
    assert "forward" not in vars(module)
    for training in (True, False):
        seen = set()
        for seed in range(12):
            results = []
            for each in (module.train(training), selecting.train(training)):
                each.zero_grad()
                torch.manual_seed(seed)
                y = each(x * next(each.parameters()).new_ones((), requires_grad=True))
                y.square().sum().backward()
                grads = [None if p.grad is None else p.grad.clone() for p in each.parameters()]
                results.append((y, grads, torch.rand(1)))
            (y, grads, following), (ours, our_grads, our_following) = results
            assert torch.equal(y, ours) and torch.equal(following, our_following)
            for grad, our in zip(grads, our_grads, strict=True):
                # A branch that is not taken leaves no gradient on either side.
                assert (grad is None) == (our is None) and (grad is None or torch.equal(grad, our))
            seen.add(tuple(grad is None for grad in grads))
        assert len(seen) > 1 or name == "unread" or (not training and name != "either")


def test_the_users_class_stays_as_it_is() -> None:
    before, module = Named.forward, Named()
    port.translate(module, example(), check=False)
    assert Named.forward is before and "forward" not in vars(module)


class _Statistics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or torch.rand([]) < 0.5:
            x = self.norm(x)
        return x


class _InPlace(Stack):
    def forward(self, x: Tensor) -> Tensor:
        y = self.layers[0](x)[0]
        if torch.rand([]) < 0.5:
            y += 1
        return y


class _OfInputs(Stack):
    def forward(self, x: Tensor) -> Tensor:
        if torch.rand([]) < x.mean():
            x = self.layers[0](x)[0]
        return x


class _OtherKinds(Stack):
    def forward(self, x: Tensor) -> Tensor:
        y = self.layers[0](x)[0]
        if torch.rand([]) < 0.5:
            y = y[0]
        return y * 2


class _Appended(Stack):
    def forward(self, x: Tensor) -> Tensor:
        kept = []
        if torch.rand([]) < 0.5:
            kept.append(x)
        return x + len(kept)


REFUSED = {
    _Statistics: r"norm \(BatchNorm1d\) has running statistics",
    _InPlace: r"writes into y",
    _OfInputs: r"test_drawn_branches.py:\d+: a branch that a random number and an input decide together",
    _OtherKinds: r"y is a tensor of \(6,\) in one branch and a tensor of",
    _Appended: r"`if torch.rand\(\[\]\) < 0.5:` is data-dependent",
}


@pytest.mark.parametrize("made", REFUSED, ids=lambda made: made.__name__)
def test_what_no_selection_can_say_is_refused(made: type[nn.Module]) -> None:
    with pytest.raises(NoPair, match=REFUSED[made]):
        port.translate(made(), example(), check=False)


class _Raising(Stack):
    def forward(self, x: Tensor) -> Tensor:
        if torch.rand([]) < 0.5:
            x = self.layers[0](x[:, :2])[0]
        return x


def test_what_is_raised_within_a_branch_is_forgotten() -> None:
    with pytest.raises(port.errors.PortError):
        port.translate(_Raising(), example(), check=False)
    done = port.translate(nn.Sequential(nn.Linear(WIDTH, 3), nn.BatchNorm1d(3)), example(), check=False)
    assert not done.unwritten
