"""Constructors that are given classes are written as the original's source has them."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

import port
from port.errors import UsageError, WeightsMismatch
from port.translation.folder import write_folder
from port.translation.frontend.construction.function_trees import calls_of, definition_of, with_calls_seen
from tests.port.translation.kept_constructor_nets import (
    Branched,
    Deriving,
    Doubled,
    Dropping,
    Filled,
    Frozen,
    Gathering,
    Outer,
    Plain,
    Staged,
    Switched,
    Wider,
    projection,
)


def distance(translation: Any, module: torch.nn.Module, x: torch.Tensor, **arguments: Any) -> float:
    """How far the written module at other arguments is from the original constructed with these, relative to that."""
    made = translation.build(arguments=arguments, weights=module)
    made.eval()
    with torch.no_grad():
        theirs = module.eval()(x).numpy()
    return float(np.abs(np.asarray(made(*translation.to_flax(x))) - theirs).max() / np.abs(theirs).max())


@pytest.fixture(scope="module")
def staged() -> Any:
    torch.manual_seed(0)
    return port.translate(Staged(Plain, [2, 2]), torch.randn(4, 7), construct=lambda: Staged(Plain, [2, 2]))


def test_the_source_has_the_loops_the_branches_and_the_methods_of_the_original(staged: Any) -> None:
    assert staged.proof.agrees
    source = staged.source
    assert "self.first = self._stage(block, width, depths[0], **options)" in source
    assert "for _ in range(1, depth):" in source
    assert "blocks.append(block(self.reached, width, norm=self.norm, **options))" in source
    assert "if self.reached != width * block.growth:" in source
    assert "def projection(width_in: int, width_out: int, **options: Any) -> Any:" in source
    assert "self.norm = norm(width_in, **options)" in source
    assert "partial(nnx.LayerNorm, epsilon=0.001" in source
    assert "self.scale = nnx.Param(jnp.full((1, width), 0.5, param_dtype))" in source
    assert "Staged(block=Plain, depths=[2, 2]," in source
    # What the written module does not hold, and what only draws numbers, is left out.
    assert "activation" not in source
    assert "xavier_uniform_" not in source
    assert "self.modules()" not in source


def test_it_is_built_with_other_counts_and_another_models_weights(staged: Any) -> None:
    torch.manual_seed(1)
    other = Staged(Plain, [3, 1], width=6, classes=4)
    assert distance(staged, other, torch.randn(5, 7), depths=[3, 1], width=6, classes=4) < 1e-5


def test_an_argument_that_nothing_bears_out_is_refused(staged: Any) -> None:
    """With another word the call does something else, which no run has shown."""
    with pytest.raises(UsageError, match="has no argument 'last'"):
        staged.build(arguments={"last": "softmax"}, weights=Staged(Plain, [2, 2], last="softmax"))
    from flax import nnx

    with pytest.raises(ValueError, match="Staged is written for last='linear' alone"):
        staged.code.Staged(staged.code.Plain, [2, 2], last="softmax", rngs=nnx.Rngs(0))


def test_a_fault_in_the_constructor_is_caught(staged: Any) -> None:
    """A product of the constructor's that is a sum: the same where it was translated, another model at other widths."""
    from dataclasses import replace

    made = staged.elsewhere.at({"depths": [2, 3], "width": 6}, Staged(Plain, [2, 3], width=6))
    assert "self._stage(block, 2 * width, depths[1]" in made.source
    planted = replace(made, source=made.source.replace("self._stage(block, 2 * width", "self._stage(block, 5 + width"))
    with pytest.raises(WeightsMismatch, match=r"head.kernel with the shape \(11, 3\), and its weights have \(12, 3\)"):
        planted.build()


def test_it_is_loaded_from_a_folder(staged: Any, tmp_path: Path) -> None:
    write_folder(staged, tmp_path / "made", name="staged")
    spec = importlib.util.spec_from_file_location("staged", tmp_path / "made" / "staged.py")
    assert spec is not None and spec.loader is not None
    code = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(code)
    given = staged.to_flax(torch.randn(3, 7))
    np.testing.assert_array_equal(code.load()(*given), staged.build()(*given))


@pytest.mark.sweep
@pytest.mark.daily(4)
@pytest.mark.parametrize("package", [False, True])
def test_a_class_of_layers_among_the_arguments_is_its_twins(package: bool) -> None:
    """What the written model is constructed with is said with the names that the source imports."""
    torch.manual_seed(0)
    construct = lambda: Staged(Plain, [2, 1], norm=partial(nn.LayerNorm, eps=1e-2))  # noqa: E731
    translation = port.translate(construct(), torch.randn(4, 7), construct=construct, package=package)
    assert translation.proof is not None
    assert translation.proof.agrees
    assert translation.arguments["norm"].startswith("partial(nnx.LayerNorm, epsilon=0.01")
    assert "norm=partial(nnx.LayerNorm, epsilon=0.01" in translation.source


@pytest.mark.parametrize("block", [Wider, Dropping, Frozen])
def test_what_cannot_be_kept_is_written_from_what_it_makes(block: type[nn.Module]) -> None:
    translation = port.translate(Outer(block, 3), torch.randn(2, 3), construct=lambda: Outer(block, 3))
    assert translation.proof is not None
    assert translation.proof.agrees
    assert "block" not in translation.source


@pytest.mark.parametrize("function", [projection, Staged._stage, Plain.__init__])
def test_a_function_whose_calls_are_seen_does_the_same(function: Any) -> None:
    seen: list[int] = []

    def called(number: int, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        seen.append(number)
        return function(*args, **kwargs)

    def shapes(made: nn.Module) -> dict[str, torch.Size]:
        return {name: parameter.shape for name, parameter in made.named_parameters()}

    def run(function: Any) -> dict[str, torch.Size]:
        if function.__name__ == "projection":
            return shapes(function(3, 4))
        if function.__name__ == "_stage":
            return shapes(function(Staged(Plain, [1, 1]), Plain, 4, 3))
        made = Plain.__new__(Plain)
        function(made, 3, 4)
        return shapes(made)

    definition = definition_of(function)
    watched = with_calls_seen(function, called)
    assert definition is not None
    assert watched is not None
    assert run(watched) == run(function)
    assert set(seen) == set(range(len(calls_of(definition))))


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
    assert distance(translation, other, torch.randn(2, 3, 64, 64), layers=[2, 1, 2, 1], num_classes=7) < 1e-4


@pytest.mark.parametrize("is_deep", [False, True])
def test_a_choice_of_which_one_half_was_never_made_refuses_that(is_deep: bool) -> None:
    translation = port.translate(Switched(4, is_deep), torch.randn(2, 3))
    assert translation.proof is not None
    assert translation.proof.agrees
    assert translation.source.count("raise NotImplementedError") == 1
    assert distance(translation, Switched(6, is_deep), torch.randn(2, 3), width=6) < 1e-5
    with pytest.raises(UsageError, match="has no argument 'is_deep'"):
        translation.build(arguments={"is_deep": not is_deep}, weights=Switched(4, not is_deep))


def test_numbers_that_are_changed_and_names_of_pythons() -> None:
    translation = port.translate(Filled(3), torch.randint(7, (2, 4)))
    assert translation.proof is not None
    assert translation.proof.agrees
    assert "self.turn = math.cos(math.pi - width)" in translation.source
    assert "> self.turn" in translation.source
    assert "fill_" not in translation.source
    assert "self.mask" not in translation.source


def test_a_class_comes_behind_its_base_and_a_module_may_be_none() -> None:
    translation = port.translate(Deriving(4), torch.randn(2, 3))
    assert translation.proof is not None
    assert translation.proof.agrees
    source = translation.source
    assert source.index("class Pair(nnx.Sequential)") < source.index("class Stem(Pair)")
    assert "super().__init__(*layers.values())" in source
    assert "self.past = nnx.data(None)" in source
    assert distance(translation, Deriving(6), torch.randn(2, 3), width=6) < 1e-5


def test_what_only_one_of_two_constructions_makes_stands_in_one_source() -> None:
    """A branch of a constructor, and a class that an argument is."""
    torch.manual_seed(0)
    translation = port.translate(Switched(4), torch.randn(2, 3), at=lambda: Switched(6, is_deep=True))
    assert translation.proof is not None
    assert translation.proof.agrees
    assert "NotImplementedError" not in translation.source
    assert distance(translation, Switched(5, True), torch.randn(2, 3), width=5, is_deep=True) < 1e-5


def test_a_class_among_the_arguments_of_another_construction_is_written_too() -> None:
    torch.manual_seed(0)
    translation = port.translate(
        Staged(Plain, [1, 1]),
        torch.randn(4, 7),
        construct=lambda: Staged(Plain, [1, 1]),
        at=lambda: Staged(Doubled, [1, 2]),
    )
    assert translation.proof is not None
    assert translation.proof.agrees
    assert "class Doubled(nnx.Module):" in translation.source
    assert any("block = " in row.what for row in translation.proof.rows)
    other = Staged(Doubled, [2, 1], width=6)
    made = translation.build(arguments=lambda: Staged(Doubled, [2, 1], width=6), weights=other)
    made.eval()
    x = torch.randn(3, 7)
    np.testing.assert_allclose(made(*translation.to_flax(x)), other.eval()(x).detach(), rtol=0, atol=1e-5)


def test_a_class_that_hands_on_what_it_gathers_has_its_bases_arguments() -> None:
    torch.manual_seed(0)
    construct = lambda: Gathering(Plain, [2, 2], width=4)  # noqa: E731
    translation = port.translate(construct(), torch.randn(4, 7), construct=construct)
    assert translation.proof is not None
    assert translation.proof.agrees
    assert "super().__init__(*args, **kwargs, **options)" in translation.source
    other = Gathering(Plain, depths=[2, 1], width=6)
    assert distance(translation, other, torch.randn(5, 7), depths=[2, 1], width=6) < 1e-5


def test_an_empty_branch_is_none_and_what_nothing_reads_may_be_given() -> None:
    torch.manual_seed(0)
    translation = port.translate(Branched(4), torch.randn(2, 3))
    assert translation.proof is not None
    assert translation.proof.agrees
    source = translation.source
    assert "self.branch = nnx.data(None)" in source
    assert 'Named("out", **options)' in source
    assert "def __init__(self, name: str, *, dtype" in source


def test_it_is_constructed_elsewhere_on_shapes_alone(staged: Any) -> None:
    there = staged.constructed_at(lambda: Staged(Plain, [4, 2], width=640))
    assert not there.has_weights
    assert there.mapping.entries
    assert there.source == staged.elsewhere.at({"depths": [2, 3]}).source
    with pytest.raises(UsageError, match="the source is another: class Doubled"):
        staged.constructed_at(lambda: Staged(Doubled, [2, 2]))


def test_a_fault_is_seen_on_shapes_alone(staged: Any) -> None:
    from dataclasses import replace

    there = staged.constructed_at({"width": 6})
    for before, after, says in (
        (
            "self._stage(block, 2 * width",
            "self._stage(block, 5 + width",
            r"head.kernel with the shape \(11, 3",
        ),
        ("range(1, depth)", "range(2, depth)", "does not construct first.layers.1"),
        ("range(1, depth)", "range(depth)", "constructs first.layers.2.* which is not among its weights"),
    ):
        assert before in there.source
        with pytest.raises(WeightsMismatch, match=says):
            replace(there, source=there.source.replace(before, after)).check_built()


def test_an_argument_that_is_none_may_be_a_class_in_another_construction() -> None:
    torch.manual_seed(0)
    translation = port.translate(
        Staged(Plain, [1, 1]),
        torch.randn(4, 7),
        construct=lambda: Staged(Plain, [1, 1]),
        at=lambda: Staged(Plain, [2, 2], norm=partial(nn.LayerNorm, eps=0.5)),
    )
    assert translation.proof is not None
    assert translation.proof.agrees
    assert "norm" not in translation.settings.fixed
