"""What a configuration's own code makes of its fields is made rebuilt where these are others."""

from __future__ import annotations

from typing import Any

import pytest

from port.translation.hub.derived_fields import derived_fields, with_fields
from port.translation.hub.hub_model import hub_model

transformers = pytest.importorskip("transformers", reason="an extra of the tests'")

STAGES = ["stage_names", "out_features", "out_indices"]


class Staged(transformers.PretrainedConfig):  # type: ignore[misc, name-defined]
    """Has a name for each of its layers, gives what the last one makes, and doubles its width at each."""

    model_type = "staged"

    def __init__(self, depth: int = 3, width: int = 4, names: Any = None, given: Any = None, **rest: Any) -> None:
        super().__init__(**rest)
        self.depth, self.width = depth, width
        self.names = names or [f"stage{number}" for number in range(depth)]
        self.given = given or self.names[-1]
        if self.given not in self.names:
            raise ValueError(f"{self.given} is none of {self.names}")


def test_what_follows_is_made_anew_and_the_rest_stays() -> None:
    config = Staged(depth=5, width=7)
    made = with_fields(config, {"depth": 2})
    assert (made.depth, made.width, made.names, made.given) == (2, 7, ["stage0", "stage1"], "stage1")
    assert (config.depth, config.given) == (5, "stage4")  # stays as it is
    # Without it, the last stage is one that there is not.
    with pytest.raises(ValueError, match="stage4 is none of"):
        Staged.from_dict(config.to_dict() | {"depth": 2, "names": None})


def test_what_somebody_has_set_stays() -> None:
    config = Staged(depth=5, given="stage1")
    assert derived_fields(config, {"depth": 3}) == ["names"]  # three are those of the class, too
    assert with_fields(config, {"depth": 3}).given == "stage1"
    named = Staged(depth=3, names=["a", "b", "c"])
    assert derived_fields(named, {"depth": 2}) == []
    assert with_fields(named, {"depth": 2}).names == ["a", "b", "c"]
    assert derived_fields(config, {"width": 3}) == []


def test_a_configuration_that_needs_its_fields_is_left_to_itself() -> None:
    class Needing(Staged):
        def __init__(self, *, width: int, **rest: Any) -> None:
            super().__init__(width=width, **rest)

    assert derived_fields(Needing(width=5, depth=6), {"depth": 2}) == []
    assert derived_fields(Staged(width=5, depth=6), {"depth": 2}) == ["names", "given"]


def test_stages_of_a_backbone() -> None:
    config = transformers.Dinov2Config()
    assert derived_fields(config, {"num_hidden_layers": 2}) == STAGES
    made = with_fields(config, {"num_hidden_layers": 2})
    assert (made.out_features, made.out_indices) == (["stage2"], [2])
    # As said on the command line, too.
    assert hub_model("transformers:Dinov2Model", {"num_hidden_layers": 6}).config.out_features == ["stage6"]
