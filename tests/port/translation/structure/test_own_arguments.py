"""Numbers are expressed in terms of constructor arguments, and stay literals where their origin is unknown."""

from __future__ import annotations

import math
from typing import Any

import pytest
from torch import nn

from port.translation.codegen.statements import text_of
from port.translation.frontend.construction import constructed
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.ir import syntax
from port.translation.ir.expr import code, literal
from port.translation.ir.module_tree import ModuleTree
from port.translation.ir.origin import AttributeOf, LengthOf, LiteralAt, Origin, ShapeRead, WorkedOut
from port.translation.ir.origin_numbers import with_origin
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.own_arguments import ALL, Configuration, OwnArguments
from port.translation.structure.written_body import Body

from ..constructor_nets import Config, Derived, Gpt, GptBlock, MlpConfig, Stages, Vit, VitBlock

HERE = SourceLocation(__file__, 1)
GPT = Gpt(Config(8, 2, 2, MlpConfig(6)))


def own(module: nn.Module, *fixed: tuple[type, str]) -> tuple[OwnArguments, Any]:
    """The arguments of a model, and the model constructed again."""
    construction = constructed(module)
    assert construction is not None
    return OwnArguments(construction, ModuleTree(module, kept_layers(module)), frozenset(fixed)), construction


def said(arguments: OwnArguments, path: str, number: Any) -> str:
    return syntax.source(arguments.in_constructor(path, literal(number)))


def test_numbers_of_a_constructor() -> None:
    arguments, construction = own(Vit(8))
    block = construction.modules["blocks.1"]
    assert said(arguments, "blocks.1", block.fc1.out_features) == "int(dim * mlp_ratio)"
    assert said(arguments, "blocks.1", block.scale) == "(dim // heads) ** -0.5"
    assert said(arguments, "blocks.1", (3, block.heads)) == "(3, heads)"
    assert said(arguments, "blocks.1", 4) == "4"
    assert said(arguments, "", construction.arguments["blocks.0"]["dim"]) == "dim"


def test_what_a_constructor_hands_on_is_said_wherever_it_is_given() -> None:
    arguments, construction = own(Vit(8))
    number = construction.modules["blocks.1"].fc1.out_features
    assert said(arguments, "", number) == said(arguments, "blocks.0", number) == "int(dim * mlp_ratio)"
    assert said(arguments, "norm", number) == "16"  # a layer of torch's has no constructor of ours


def test_a_number_that_another_constructor_is_not_given_stays_one() -> None:
    arguments, construction = own(Stages(4))
    conv = next(each for each in construction.modules["stages.1.0"].modules() if isinstance(each, nn.Conv2d))
    assert said(arguments, "stages.1.0", conv.out_channels) == "outside"
    assert said(arguments, "", conv.out_channels) == said(arguments, "stages.0.0", conv.out_channels) == "8"


def test_fields_of_configurations() -> None:
    arguments, construction = own(GPT)
    hidden = construction.modules["blocks.0"].mlp[0].out_features
    assert said(arguments, "blocks.0", hidden) == "int(config.mlp.width * config.mlp.ratio)"
    fixed, _ = own(GPT, (MlpConfig, "width"))
    assert said(fixed, "blocks.0", hidden) == "int(6 * config.mlp.ratio)"
    fixed, _ = own(GPT, (MlpConfig, "width"), (MlpConfig, "ratio"))
    assert said(fixed, "blocks.0", hidden) == "12"
    fixed, _ = own(GPT, (Config, "mlp"))
    assert said(fixed, "blocks.0", hidden) == "int(config.mlp.width * config.mlp.ratio)"


def test_those_that_are_fixed_are_written_as_their_values() -> None:
    arguments, construction = own(Vit(8), (VitBlock, "dim"))
    block = construction.modules["blocks.1"]
    assert said(arguments, "blocks.1", block.fc1.out_features) == "int(8 * mlp_ratio)"
    assert said(arguments, "blocks.1", block.fc1.in_features) == "8"
    everything, _ = own(Vit(8), (VitBlock, ALL))
    assert not everything.covers("blocks.1") and everything.covers("")
    assert said(everything, "blocks.1", block.fc1.out_features) == "16"
    assert everything.passed("blocks.1") == {}


def test_without_a_construction_all_stays() -> None:
    arguments = OwnArguments(None, ModuleTree(Vit(8), {}))
    assert not arguments.covers("")
    assert arguments.passed("") == {} and arguments.layer("norm") == (None, {})
    body = Body(("x",), (), code("x"), False)
    assert arguments.in_body("", body, {}) == (body, {})
    assert arguments.sizes("pos", Vit(8).pos) == (1, 5, 8)


def test_what_a_constructor_is_given() -> None:
    arguments, _ = own(Vit(8))
    given = {name: syntax.source(value) for name, value in arguments.passed("blocks.1").items()}
    assert given == {"dim": "8", "heads": "2", "mlp_ratio": "2.0"}
    configured, _ = own(GPT)
    (value,) = configured.passed("blocks.0").values()
    assert isinstance(value, syntax.Const) and value.value == Configuration(Config)
    assert said_of(configured.in_constructor("", value)) == "config"


def said_of(tree: syntax.Expr) -> str:
    return syntax.source(tree)


def test_lengths_and_layers() -> None:
    arguments, construction = own(Vit(8))
    module = construction.modules[""]
    assert said(arguments, "", arguments.sizes("pos", module.pos)) == "(1, tokens, dim)"
    assert arguments.sizes("pos", nn.Parameter(module.pos.new_zeros(2))) == (2,)
    layer, given = arguments.layer("norm")
    assert isinstance(layer, nn.LayerNorm) and said(arguments, "", given["normalized_shape"]) == "dim"
    assert arguments.layer("nowhere") == (None, {})


@pytest.mark.parametrize(
    ("made", "written"),
    [
        ("nnx.List([f(3), f(3)])", "nnx.List([f(3) for _ in range(depth)])"),
        ("nnx.Sequential(f(3), f(3))", "nnx.Sequential(*[f(3) for _ in range(depth)])"),
        ("nnx.List([f(3), f(4)])", "nnx.List([f(3), f(4)])"),
        ("nnx.List([f(3), f2(3)])", "nnx.List([f(3), *[f2(3) for _ in range(depth - 1)]])"),
        ("nnx.Sequential(f(3), f2(3))", "nnx.Sequential(f(3), *[f2(3) for _ in range(depth - 1)])"),
        ("nnx.List([f(3), g(3)])", "nnx.List([f(3), g(3)])"),
        ("nnx.List([f(3), f(3), f(3)])", "nnx.List([f(3), f(3), f(3)])"),
        ("nnx.List([f(3), f2(3), f2(3)])", "nnx.List([f(3), f2(3), f2(3)])"),
        ("nnx.List([3, 3])", "nnx.List([3, 3])"),
        ("other([f(3), f(3)])", "other([f(3), f(3)])"),
    ],
)
def test_as_many_as_an_argument_says(made: str, written: str) -> None:
    assert syntax.source(own(Vit(8))[0].in_constructor("", syntax.parsed(made))) == written


def body_of(arguments: OwnArguments, number: Origin, value: Any, path: str = "", *taken: str) -> tuple[str, Any]:
    """What is returned, and the attributes that are made for it."""
    body = Body(("x",), (), literal(with_origin(value, number)), False)
    body, made = arguments.in_body(path, body, dict.fromkeys(taken))
    assert body.returns is not None
    return text_of(syntax.Return(body.returns)), {name: syntax.source(each) for name, each in made.items()}


def test_what_a_body_reads_is_an_attribute() -> None:
    arguments, _ = own(Vit(8))
    scale = AttributeOf("blocks.0", "scale")
    made = {"scale": "(dim // heads) ** -0.5"}
    assert body_of(arguments, scale, 0.5, "blocks.0") == ("return self.scale", made)
    worked_out = WorkedOut("/", (LiteralAt(1, HERE), WorkedOut("math.sqrt", (ShapeRead("k", -1),))))
    assert body_of(arguments, worked_out, 0.5, "blocks.0") == ("return 1 / math.sqrt(k.shape[-1])", {})
    assert body_of(arguments, LengthOf("self.pos", 1, HERE), 5) == ("return self.tokens", {"tokens": "tokens"})


def test_a_body_that_has_a_call_within_written_out_keeps_what_that_reads() -> None:
    """Said with the arguments that the constructor around it hands on."""
    arguments, _ = own(Vit(8))
    scale = AttributeOf("blocks.0", "scale")
    assert body_of(arguments, scale, 0.5, "") == ("return self.scale", {"scale": "(dim // heads) ** -0.5"})
    fixed, _ = own(Vit(8), (Vit, "dim"), (Vit, "heads"))
    assert body_of(fixed, scale, 0.5, "") == ("return 0.5", {})


def test_a_long_number_is_worked_out_as_the_original_does() -> None:
    arguments, _ = own(Vit(8))
    quotient = WorkedOut("/", (LiteralAt(2.0, HERE), LiteralAt(math.pi, HERE)))
    root = WorkedOut("math.sqrt", (quotient,))
    assert body_of(arguments, root, math.sqrt(2 / math.pi)) == ("return math.sqrt(2.0 / math.pi)", {})
    assert body_of(arguments, LiteralAt(math.pi, HERE), math.pi) == ("return math.pi", {})
    assert body_of(arguments, root, 0.7978845) == ("return 0.7978845", {})  # it was changed
    half = WorkedOut("/", (LiteralAt(1, HERE), LiteralAt(2, HERE)))
    assert body_of(arguments, half, 0.5) == ("return 0.5", {})


def test_what_a_body_cannot_read_stays_a_number() -> None:
    arguments, _ = own(Vit(8))
    scale = AttributeOf("blocks.0", "scale")
    assert body_of(arguments, scale, 0.5, "blocks.1") == ("return 0.5", {})
    assert body_of(arguments, scale, 0.5, "", "scale") == ("return 0.5", {})
    assert body_of(arguments, scale, 0.5, "blocks.0", "scale") == ("return 0.5", {})
    assert body_of(arguments, AttributeOf("blocks.0", "nothing"), 3, "blocks.0") == ("return 3", {})
    assert body_of(arguments, LiteralAt(3, HERE), 3) == ("return 3", {})
    assert body_of(arguments, WorkedOut("*", (scale, LiteralAt(2))), 1.0, "blocks.0") == ("return 1.0", {})
    assert body_of(arguments, LengthOf("x", 1, HERE), 5) == ("return 5", {})


def test_an_attribute_that_was_changed_is_not_the_arguments() -> None:
    module = Derived(6)
    arguments, _ = own(module)
    assert body_of(arguments, AttributeOf("", "dim"), 6) == ("return self.dim", {"dim": "dim"})
    module.dim = 7
    assert body_of(arguments, AttributeOf("", "dim"), 7) == ("return self.dim", {"dim": "7"})


def test_an_attribute_of_a_configuration() -> None:
    arguments, _ = own(GPT)
    assert body_of(arguments, AttributeOf("", "config.block"), 8) == ("return self.block", {"block": "config.block"})
    fixed, _ = own(GPT, (Config, "block"), (GptBlock, ALL))
    assert body_of(fixed, AttributeOf("", "config.block"), 8) == ("return 8", {})


def test_what_the_arguments_do_not_say_is_an_attribute_all_the_same() -> None:
    module = Vit(8)
    module.blocks[0].rate = 0.5  # type: ignore[assignment]
    unknown = OwnArguments(None, ModuleTree(module, kept_layers(module)))
    rate = AttributeOf("blocks.0", "rate")
    assert body_of(unknown, rate, 0.5, "blocks.0") == ("return self.rate", {"rate": "0.5"})
    twice = WorkedOut("*", (LiteralAt(2, HERE), rate))
    assert body_of(unknown, twice, 1.0, "blocks.0") == ("return 2 * self.rate", {"rate": "0.5"})
    # A run has changed it since, or it is another module's, or no number.
    assert body_of(unknown, rate, 0.25, "blocks.0") == ("return 0.25", {})
    assert body_of(unknown, twice, 0.5, "blocks.0") == ("return 0.5", {})
    assert body_of(unknown, rate, 0.5, "blocks.1") == ("return 0.5", {})
    assert body_of(unknown, AttributeOf("blocks.0", "training"), 1, "blocks.0") == ("return 1", {})
