"""Constructors that are given classes are written as the original's source has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.models.resnet import BasicBlock, ResNet

import port
from port.errors import UsageError
from port.translation.frontend.construction.function_trees import with_calls_seen
from tests.port.translation.kept_constructor_nets import Plain, Staged, projection


def of_module(translation: Any, module: torch.nn.Module, x: torch.Tensor, **arguments: Any) -> float:
    """How far the written module at other arguments is from the original constructed with these."""
    import jax

    made = translation.build(arguments=arguments, weights=module)
    made.eval()
    given = translation.to_flax(x)
    with jax.enable_x64(True), torch.no_grad():
        theirs = np.asarray(made(*given))
        return float(np.abs(theirs - module.eval()(x).numpy()).max())


@pytest.fixture(scope="module")
def staged() -> Any:
    torch.manual_seed(0)
    return port.translate(Staged(Plain, [2, 2]), torch.randn(4, 7), construct=lambda: Staged(Plain, [2, 2]))


def test_the_source_has_the_loops_the_branches_and_the_methods_of_the_original(staged: Any) -> None:
    assert staged.proof.agrees
    source = staged.source
    assert "self.first = self._stage(block, width, depths[0], **options)" in source
    assert "for _ in range(1, depth):" in source
    assert "blocks.append(block(self.reached, width, norm=norm, **options))" in source
    assert "if self.reached != width * block.growth:" in source
    assert "def projection(width_in: int, width_out: int, **options: Any) -> Any:" in source
    assert "self.norm = norm(width_in, **options)" in source
    assert "Staged(block=Plain, depths=[2, 2]," in source
    # What the written module does not hold, and what only draws numbers, is left out.
    assert "activation" not in source
    assert "xavier_uniform_" not in source
    assert "self.modules()" not in source


def test_it_is_built_with_other_counts_and_another_models_weights(staged: Any) -> None:
    torch.manual_seed(1)
    other = Staged(Plain, [3, 1], width=6, classes=4)
    assert of_module(staged, other, torch.randn(5, 7), depths=[3, 1], width=6, classes=4) < 1e-5


def test_an_argument_that_nothing_bears_out_is_refused(staged: Any) -> None:
    """At double=True the head is said otherwise: the source would not be the original there."""
    reason = staged.settings.why_fixed("double")
    if reason is None:
        other = Staged(Plain, [1, 2], double=True)
        assert of_module(staged, other, torch.randn(5, 7), depths=[1, 2], double=True) < 1e-5
    else:
        with pytest.raises(UsageError, match="double"):
            staged.build(arguments={"double": True}, weights=Staged(Plain, [2, 2], double=True))


def test_a_fault_in_the_constructor_is_caught(staged: Any) -> None:
    """The stages' first block is given what goes past it; without that, other parameters are there."""
    from dataclasses import replace

    assert "past, norm" in staged.source
    planted = replace(staged, source=staged.source.replace("past, norm, **options", "None, norm, **options"))
    with pytest.raises(Exception, match=r"past|add|broadcast|incompatible|shape"):
        planted.build()(*staged.to_flax(torch.randn(4, 7)))


@pytest.mark.parametrize("function", [projection, Staged._stage, Plain.__init__])
def test_a_function_whose_calls_are_seen_does_the_same(function: Callable[..., Any]) -> None:
    seen: list[int] = []

    def called(number: int, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        seen.append(number)
        return function(*args, **kwargs)

    made = with_calls_seen(function, called)  # type: ignore[arg-type]
    assert made is not None
    if function is projection:
        assert made(3, 4).weight.shape == (4, 3)
        assert seen == [0]


@pytest.mark.sweep
@pytest.mark.daily(4)
def test_resnet_of_torchvisions_is_another_resnet_too() -> None:
    torch.manual_seed(0)
    construct = lambda: ResNet(BasicBlock, [1, 2, 1, 1], num_classes=10)  # noqa: E731
    translation = port.translate(construct(), torch.randn(2, 3, 64, 64), construct=construct)
    assert translation.proof is not None
    assert translation.proof.agrees
    assert "self.layer1 = self._make_layer(block, 64, layers[0], **options)" in translation.source
    other = ResNet(BasicBlock, [2, 1, 2, 1], num_classes=7)
    x = torch.randn(2, 3, 64, 64)
    assert of_module(translation, other, x, layers=[2, 1, 2, 1], num_classes=7) < 1e-4
