"""Arguments are traced from constructor to constructor: passed on, they are the same argument."""

from __future__ import annotations

from torch import nn

from port.translation.frontend.construction import Construction, constructed
from port.translation.ir.origin import ConstructorArgument
from port.translation.structure.handed_arguments import HandedArguments

from ..constructor_nets import Drawn, DrawnConfig, HeadsConfig, HeadsStages, PatchConfig, Positions, Stages, Vit


def of(module: nn.Module) -> tuple[Construction, HandedArguments]:
    found = constructed(module, lambda: module.again())  # type: ignore[operator]
    assert found is not None
    return found, HandedArguments(found)


def again(cls: type[nn.Module], *given: object) -> nn.Module:
    made = cls(*given)
    object.__setattr__(made, "again", lambda: cls(*given))
    return made


def test_a_configuration_is_handed_down_and_read_from_above() -> None:
    known, handed = of(again(Drawn, DrawnConfig(6)))
    inside = known.constructors["inside"]
    assert handed.as_given("inside", ConstructorArgument(known.constructors[""], "config.spread")) == "config.spread"
    assert handed.as_given("", ConstructorArgument(inside, "config.dim")) == "config.dim"
    known, handed = of(again(Positions, PatchConfig(6, 12)))
    assert handed.as_given("", ConstructorArgument(known.constructors["patches"], "config.size")) == "config.size"


def test_numbers_are_handed_on_under_other_names() -> None:
    known, handed = of(again(Vit, 8))
    one, other = known.constructors["blocks.0"], known.constructors["blocks.1"]
    assert handed.as_given("blocks.1", ConstructorArgument(one, "dim")) == "dim"
    assert handed.as_given("", ConstructorArgument(other, "mlp_ratio")) == "mlp_ratio"


def test_an_argument_of_its_own_is_nearer_than_a_field_of_a_configuration() -> None:
    known, handed = of(again(HeadsStages, HeadsConfig()))
    for number in range(2):
        field = ConstructorArgument(known.constructors[""], f"config.heads[{number}]")
        assert handed.as_given(f"stages.{number}", field) == "heads"
        assert handed.as_given(f"stages.{1 - number}", field) == f"config.heads[{number}]"
        assert handed.as_given("", field) == f"config.heads[{number}]"


def test_what_was_worked_out_on_the_way_is_another() -> None:
    known, handed = of(again(Stages, 4))
    number = known.constructors["stages.1.0"]
    assert handed.as_given("stages.1.0", ConstructorArgument(number, "outside")) == "outside"
    assert handed.as_given("", ConstructorArgument(number, "outside")) is None
    assert handed.as_given("stages.0.0", ConstructorArgument(number, "outside")) is None
