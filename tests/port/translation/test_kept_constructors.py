"""Constructors that are given classes are written as the original's source has them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
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
from port.translation.frontend.construction.function_trees import calls_of, definition_of, with_calls_intercepted
from port.translation.verify.proving import prove
from tests.port.translation.kept_constructor_nets import (
    Branched,
    Copying,
    Deriving,
    Doubled,
    Doubling,
    Filled,
    Frozen,
    Gathering,
    Handing,
    Keeping,
    LastIsPlain,
    OfGathered,
    OfGivenLayers,
    OfLists,
    Outer,
    Placed,
    Plain,
    Recurrent,
    Residuals,
    Staged,
    Switched,
    Wider,
    of_a_part,
    of_parts,
    projection,
)

pytestmark = pytest.mark.sweep


def agreeing(construct: Callable[[], nn.Module], x: torch.Tensor) -> Any:
    """A translation with fixed lengths, whose proof agrees."""
    torch.manual_seed(0)
    translation = port.translate(construct(), x, construct=construct, static=True)
    assert translation.proof is not None
    assert translation.proof.agrees
    return translation


def distance(translation: Any, module: torch.nn.Module, x: torch.Tensor, **arguments: Any) -> float:
    """The relative distance of the written module at other arguments from the original with these arguments."""
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
    assert "saved_arguments(path, Staged, options, block=Plain, depths=[2, 2])" in source
    # What the written module does not hold, and what only draws numbers, is left out.
    assert "activation" not in source
    assert "xavier_uniform_" not in source
    assert "self.modules()" not in source


def test_it_is_built_with_other_counts_and_another_models_weights(staged: Any) -> None:
    torch.manual_seed(1)
    other = Staged(Plain, [3, 1], width=6, classes=4)
    assert distance(staged, other, torch.randn(5, 7), depths=[3, 1], width=6, classes=4) < 1e-5


def test_an_argument_that_nothing_bears_out_is_refused(staged: Any) -> None:
    """With another word the call takes a branch that no run has shown."""
    with pytest.raises(UsageError, match="has no argument 'last'"):
        staged.build(arguments={"last": "softmax"}, weights=Staged(Plain, [2, 2], last="softmax"))
    from flax import nnx

    with pytest.raises(ValueError, match="Staged is written for last='linear' alone"):
        staged.code.Staged(staged.code.Plain, [2, 2], last="softmax", rngs=nnx.Rngs(0))


def test_a_fault_in_the_constructor_is_caught(staged: Any) -> None:
    """A sum instead of a product in the constructor: right at the translated size, wrong at other widths."""
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


@pytest.mark.daily(4)
@pytest.mark.parametrize("package", [False, True])
def test_a_class_of_layers_among_the_arguments_is_its_twins(package: bool) -> None:
    """The arguments of the written model use the names that the source imports."""
    torch.manual_seed(0)
    construct = lambda: Staged(Plain, [2, 1], norm=partial(nn.LayerNorm, eps=1e-2))  # noqa: E731
    translation = port.translate(construct(), torch.randn(4, 7), construct=construct, package=package)
    assert translation.proof is not None
    assert translation.proof.agrees
    assert translation.arguments["norm"].startswith("partial(nnx.LayerNorm, epsilon=0.01")
    assert "norm=partial(nnx.LayerNorm, epsilon=0.01" in translation.source


@pytest.mark.parametrize("block", [Wider, Frozen])
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
    watched = with_calls_intercepted(function, called)
    assert definition is not None
    assert watched is not None
    assert run(watched) == run(function)
    assert set(seen) == set(range(len(calls_of(definition))))


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
    """A branch of a constructor, and a class that is an argument."""
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
    with pytest.raises(UsageError, match="the source differs: class Doubled"):
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


def test_the_base_of_a_block_refuses_nothing_that_only_the_root_does() -> None:
    construct = lambda: Gathering(Handing, [1, 1], width=4)  # noqa: E731
    translation = agreeing(construct, torch.randn(4, 7))
    assert translation.elsewhere is not None
    assert translation.elsewhere.keeps_constructors
    assert "Staged is written for norm=None alone" in translation.source
    assert "Plain is written for" not in translation.source


def test_what_derives_from_a_list_of_modules_holds_a_list() -> None:
    translation = agreeing(OfLists, torch.randn(5, 4))
    source = translation.source
    assert "self.layers = nnx.List([])" in source
    assert "self.layers.append(Growing(width + i * growth, growth, **options))" in source
    assert "for layer in self.layers:\n            features.append(layer(features))" in source
    assert source.count("class Grown(") == 1
    counts = (2, 4, 3)
    torch.manual_seed(1)
    assert distance(translation, OfLists(counts), torch.randn(5, 4), counts=counts) < 1e-5


def test_one_call_makes_layers_of_the_classes_that_a_constructor_is_given() -> None:
    construct = lambda: OfGivenLayers([Doubling, Keeping, Doubling])  # noqa: E731
    translation = agreeing(construct, torch.randn(4, 3))
    source = translation.source
    assert "class Doubling(nnx.Linear):" in source
    assert "width, 2 * width, use_bias=bias" in source.partition("class Doubling")[2]
    assert "use_bias=False" in source.partition("class Keeping(nnx.Linear):")[2]
    assert "layers.append(make(width, **options))" in source
    assert "@staticmethod\n    def factor(count: int) -> Any:\n        return 2**count" in source
    torch.manual_seed(1)
    other = OfGivenLayers([Keeping, Doubling], width=4)
    assert distance(translation, other, torch.randn(5, 4), makers=[Keeping, Doubling], width=4) < 1e-5


def test_what_is_gathered_may_be_given_or_not_and_for_each_axis_or_for_all() -> None:
    translation = agreeing(OfGathered, torch.randn(2, 2, 9, 9))
    assert 'strides=kwargs.get("stride", 1),' in translation.source
    assert 'padding=kwargs.get("padding", 0),' in translation.source
    assert 'if isinstance(kwargs["kernel_size"], int)' in translation.source
    assert (
        "self.one = Convolved(channels, kernel_size=(1, size), padding=(0, size // 2), **options)" in translation.source
    )
    assert translation.proof_at({"size": 5}).agrees


def test_a_network_of_which_the_model_holds_a_part_is_made_for_it() -> None:
    translation = agreeing(of_parts, torch.randn(4, 3))
    source = translation.source
    assert "for name, module in named_children(model):" in source
    assert "for name, module in layers.items():\n            setattr(self, name, module)" in source
    assert "del results[name]" in source
    assert "self.body = nnx.Sequential(" in source.partition("class Whole(")[2]
    assert "self.head = nnx.Linear" not in source
    assert translation.proof_at(lambda: of_parts(6, 3)).agrees


def test_a_part_of_a_network_is_an_attribute_of_what_is_made_for_it() -> None:
    translation = agreeing(of_a_part, torch.randn(4, 4))
    source = translation.source
    assert "self.layers = nnx.List([*layers.values()])" in source
    assert "UntilNumber(model=Whole(depth=3, **options).body, " in source
    assert "self.stem" not in source
    assert translation.proof_at(lambda: of_a_part(4, 2)).agrees


def test_what_modules_within_hold_is_read_off_them() -> None:
    made = port.translate(Recurrent(), torch.randint(0, 7, (2, 4)), construct=Recurrent)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    assert "x = self.embed(words) * math.sqrt(self.embed.features)" in made.source
    assert "jnp.ones((self.rnn.num_layers, words.shape[0], self.rnn.hidden_size)" in made.source
    assert "        for part in self.parts:\n            y = part(y) / part.width\n" in made.source
    assert "self.rnn = GRU(width, hidden, num_layers=layers, batch_first=True, **options)" in made.source
    assert made.proof_at({"width": 4, "hidden": 3, "layers": 1}).agrees
    wrong = made.source.replace("self.embed.features", "self.rnn.hidden_size")
    assert not prove(Recurrent(), replace(made, source=wrong), (torch.randint(0, 7, (2, 4)),), {}).agrees


@pytest.mark.parametrize("empty", [pytest.param(True, id="Sequential"), pytest.param(False, id="Identity")])
def test_what_does_nothing_is_called_where_others_do_something(empty: bool) -> None:
    x = torch.randn(2, 4, 6, 6)
    construct = partial(Residuals, empty=empty)
    made = agreeing(construct, x)
    assert made.source.count("class Residual(") == 1 and "class Residual2" not in made.source
    assert "        out = out + self.shortcut(x)\n" in made.source
    assert "if stride != 1 or channels != self.expansion * planes:" in made.source
    assert "y = self.fc(self.pool" not in made.source and "return x * y\n" in made.source
    assert ".reshape(b, 1, 1, c)\n" in made.source
    assert made.proof_at({"blocks": (2, 3), "width": 4}).agrees
    wrong = made.source.replace("out + self.shortcut(x)", "out + x[..., :1]")
    assert not prove(construct(), replace(made, source=wrong), (x,), {}).agrees


def test_layers_that_are_copied_are_given_as_in_the_original() -> None:
    x = torch.randn(2, 5, 8)
    made = agreeing(Copying, x)
    assert "layer = TransformerEncoderLayer(width, heads, dim_feedforward=hidden, dropout=rate, " in made.source
    assert "self.encoder = TransformerEncoder(layer, depth)" in made.source
    assert "TransformerDecoderLayer(width, heads, dim_feedforward=hidden, batch_first=True, **options)" in made.source
    assert "norm=nnx.LayerNorm(width, " in made.source
    there = {"hidden": 10, "depth": 3, "heads": 4, "rate": 0.3}
    assert made.proof_at(there).agrees


def test_tables_are_worked_out_as_in_the_original() -> None:
    made = port.translate(Placed(), torch.randn(2, 5, 6), construct=Placed)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    assert (
        "        # half of the channels are sines\n"
        "        pe = jnp.zeros((longest, width))\n"
        "        position = jnp.arange(0, longest)[:, None]\n"
        "        div_term = jnp.exp(jnp.arange(0, width, 2) * (-math.log(10000.0) / width))\n"
        "        pe = pe.at[:, 0::2].set(jnp.sin(position * div_term))\n"
        "        pe = pe.at[:, 1::2].set(jnp.cos(position * div_term))\n"
        "        self.pe = Buffer(pe[None].astype(param_dtype))\n"
    ) in made.source, made.source
    assert "self.angles = Buffer(jnp.concatenate((freqs, freqs), axis=-1).astype(param_dtype))\n" in made.source
    assert "TABLES" not in made.source
    assert made.proof_at({"width": 8}).agrees
    # A new model starts as the original does.
    theirs, ours = Placed(10), made.build(arguments={"width": 10})
    for name in ("pe", "angles"):
        expected = getattr(theirs.positions, name).numpy()
        assert np.abs(np.asarray(getattr(ours.positions, name)[...]) - expected).max() < 1e-6


def test_an_activation_that_some_have_is_no_attribute() -> None:
    agreeing(LastIsPlain, torch.randn(3, 5))
