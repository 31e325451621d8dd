"""`port.match`: pairs of models written apart in the ways in which people write them; ambiguity; faults; the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen, nnx

import port
from models.written_apart import keeping, language, others, pieces, vision
from port.errors import UsageError, WeightsMismatch
from port.mapping import Rule, Rules, between, read_mapping

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

Case = tuple[torch.nn.Module, Any, Any]


def with_variables(module: linen.Module, *inputs: Any) -> tuple[linen.Module, Any]:
    arrays = [jnp.asarray(np.asarray(array)) for array in inputs]
    return module, jax.jit(module.init)(jax.random.key(1), *arrays)


def drawn(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(3).normal(size=shape)).float()


def ids(*shape: int, least: int = 1, most: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(4).integers(least, most, shape))


def last(array: torch.Tensor) -> torch.Tensor:
    return array.movedim(1, -1)


def tokens(most: int) -> torch.Tensor:
    return ids(2, 6, most=most)


IMAGES = drawn(2, 3, 8, 8)
ROWS = drawn(2, 5, 12)

CASES: dict[str, Callable[[], Case]] = {
    "resnet": lambda: (vision.ResNet(), with_variables(vision.LinenResNet(), last(IMAGES)), IMAGES),
    "vit": lambda: (vision.TimmViT(), vision.NnxViT(rngs=nnx.Rngs(0)), IMAGES),
    "vit, scanned": lambda: (vision.TimmViT(), with_variables(vision.LinenScannedViT(), last(IMAGES)), IMAGES),
    "flatten": lambda: (vision.FlattenNet(), vision.NnxFlattenNet(nnx.Rngs(0)), drawn(2, 2, 8, 10)),
    "u-net": lambda: (vision.UNet(), vision.NnxUNet(nnx.Rngs(0)), drawn(2, 1, 8, 8)),
    "mixer": lambda: (vision.Mixer(), with_variables(vision.LinenMixer(), drawn(2, 6, 6, 3)), drawn(2, 3, 6, 6)),
    "bert": lambda: (
        language.Bert(),
        with_variables(language.LinenBert(), tokens(17), ids(2, 6, least=0, most=2)),
        (tokens(17), ids(2, 6, least=0, most=2)),
    ),
    "gpt": lambda: (language.GPT(), language.NnxGPT(rngs=nnx.Rngs(0)), tokens(19)),
    "gpt, untied": lambda: (language.GPT(), language.NnxGPT(tied=False, rngs=nnx.Rngs(0)), tokens(19)),
    "llama": lambda: (language.Llama(), language.NnxLlama(scanned=False, rngs=nnx.Rngs(0)), tokens(13)),
    "llama, scanned": lambda: (language.Llama(), language.NnxLlama(scanned=True, rngs=nnx.Rngs(0)), tokens(13)),
    "bloom": lambda: (language.Bloom(), with_variables(language.LinenBloom(), ROWS), ROWS),
    "speech": lambda: (others.TorchSpeech(), with_variables(others.LinenSpeech(), drawn(2, 6, 5)), drawn(2, 6, 5)),
    "tagger": lambda: (others.TorchTagger(), others.NnxTagger(nnx.Rngs(0)), tokens(11)),
    "dlrm": lambda: (
        others.TorchDLRM(),
        with_variables(others.LinenDLRM(), drawn(4, 6), ids(4, 3, most=9)),
        (drawn(4, 6), ids(4, 3, most=9)),
    ),
    "masked": lambda: (keeping.TorchMasked(), with_variables(keeping.LinenMasked(), tokens(17)), tokens(17)),
    "shards": lambda: (pieces.TorchShards(), with_variables(pieces.LinenShards(), tokens(12)), tokens(12)),
    "relative": lambda: (
        keeping.TorchRelative(),
        with_variables(keeping.LinenRelative(), drawn(2, 5, 8)),
        drawn(2, 5, 8),
    ),
    "reader": lambda: (
        pieces.TorchReader(),
        with_variables(pieces.LinenReader(), drawn(2, 5, 8), drawn(2, 3, 8) + 1),
        (drawn(2, 5, 8), drawn(2, 3, 8) + 1),
    ),
    "listener": lambda: (
        pieces.TorchListener(),
        with_variables(pieces.LinenListener(), drawn(2, 5, 8)),
        drawn(2, 5, 8),
    ),
    "two branches": lambda: two_branches(),
    "encoder": lambda: (others.TorchEncoder(), others.NnxEncoder(nnx.Rngs(0)), drawn(2, 5, 8)),
}
QUICK = ("two branches",)


def cases() -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.sweep) for name in CASES]


@pytest.mark.parametrize("name", cases())
def test_models_written_apart_are_matched_and_proved(name: str, tmp_path: Path) -> None:
    module, flax, inputs = CASES[name]()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    found = port.match(module, flax, inputs)
    assert found.is_proved and not found.open, str(found)
    # All of torch's tensors stand in the table, each once, and the model is as it was.
    told = [key for row in found.rows for key in row.torch]
    tied = {name for entry in found.mapping.entries for names in entry.tied for name in names}
    assert len(told) == len(set(told)) and set(told) | tied >= set(before)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    # The file says the same.
    found.save(tmp_path / "mapping.toml")
    rules = read_mapping(tmp_path / "mapping.toml")
    assert isinstance(rules, Rules)
    given = flax if not isinstance(flax, tuple) else flax[1]
    again = between(module, given, rename=rules)
    assert {(entry.sources, entry.targets, entry.moves) for entry in again.entries} == {
        (entry.sources, entry.targets, entry.moves) for entry in found.mapping.entries
    }


@pytest.mark.sweep
def test_constants_of_flaxs_keep_their_values() -> None:
    found = port.match(*CASES["relative"]())
    assert found.is_proved and found.mapping.kept == ("distances", "mask"), str(found)
    assert [str(row) for row in found.rows if row.by == "no twin needed"] == [
        f"– → {name}  no twin needed: a constant, and keeps its value" for name in ("distances", "mask")
    ]
    # A wrong one is no constant that the two share.
    module, (linen_module, variables), inputs = CASES["relative"]()
    wrong = {**variables, "constants": {**variables["constants"], "mask": jnp.triu(jnp.ones((5, 5)))}}
    assert not port.match(module, (linen_module, wrong), inputs)


@pytest.mark.sweep
def test_what_is_repeated_is_one_rule() -> None:
    found = port.match(*CASES["llama"]())
    assert found.toml.count("[[rule]]") == 9  # five for all layers, one for each of the rest
    assert r"'layers\.(\d+)\.self_attn\.o_proj\.weight'" in found.toml and r"'stack.\1.out.kernel'" in found.toml


def test_branches_that_only_activations_tell_apart() -> None:
    found = port.match(*two_branches())
    assert found.is_proved
    decided = {row.flax: row for row in found.rows}
    # The gate is called first in Flax, and second in torch.
    assert decided["Dense_0.bias", "Dense_0.kernel"].torch == ("right.weight", "right.bias")
    assert decided["Dense_0.bias", "Dense_0.kernel"].by == "activations"
    assert decided["Dense_1.bias", "Dense_1.kernel"].by == "kind and shape"


def two_branches(activation: Any = linen.tanh) -> Case:
    inputs = drawn(3, 4)
    return others.TorchTwoBranches(), with_variables(others.LinenTwoBranches(activation), inputs), inputs


def alike() -> Case:
    inputs = drawn(3, 4)
    return others.TorchAlikeBranches(), with_variables(others.LinenAlikeBranches(), inputs), inputs


def test_branches_that_may_be_exchanged_stay_open() -> None:
    found = port.match(*alike())
    assert not found and found.report is None and len(found.open) == 4 and not found.mapping.entries
    (row,) = (row for row in found.open if "Dense_0.kernel" in row.flax)
    assert {candidate.torch[0] for candidate in row.candidates} == {"left.0.weight", "right.0.weight"}
    assert r"--rename '^left\.0\b=Dense_0'" in found.advice


@pytest.mark.sweep
def test_the_users_word_decides_what_is_open() -> None:
    # One word decides both branches: the second layers follow from the first.
    for first, second in (("left", "right"), ("right", "left")):
        found = port.match(*alike(), rename={rf"^{first}\.0": "Dense_0"})
        assert found.is_proved, str(found)
        of = {row.flax[1]: row for row in found.rows}
        assert of["Dense_0.kernel"].by == "your rule" and of["Dense_0.kernel"].torch[0] == f"{first}.0.weight"
        assert of["Dense_3.kernel"].torch[0] == f"{second}.2.weight"


def test_the_users_rules_come_first_even_where_they_are_wrong() -> None:
    found = port.match(*two_branches(), rename={"^left": "Dense_0"})
    assert not found.is_proved and found.report is not None and not found.open
    assert {row.by for row in found.rows if row.torch[0] == "left.weight"} == {"your rule"}


def test_rules_with_moves_are_taken_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(
        "[[rule]]\nsource = 'left\\.weight'\ntarget = 'Dense_2.kernel'\nmoves = [{ permute = [1, 0] }]\n"
        "[[rule]]\nsource = 'left\\.bias'\ntarget = 'Dense_2.bias'\n"
    )
    found = port.match(*two_branches(), rename=tmp_path / "rules.toml")
    assert found.is_proved, str(found)
    assert [row.by for row in found.rows if "left.weight" in row.torch] == ["your rule"]


def test_rules_that_fit_no_model_are_refused() -> None:
    rule = Rule(("nothing",), ("Dense_0.kernel",))
    with pytest.raises(WeightsMismatch, match="no key of the torch side"):
        port.match(*two_branches(), rename=Rules(rules=(rule,)))


# %% Faults


class Chain(torch.nn.Module):
    def __init__(self, activation: Any = torch.tanh, width: int = 6) -> None:
        super().__init__()
        self.activation = activation
        self.a, self.b, self.c = torch.nn.Linear(4, 6), torch.nn.Linear(6, width), torch.nn.Linear(width, 2)

    def forward(self, x: Any) -> Any:
        return self.c(self.activation(self.b(self.activation(self.a(x)))))


class LinenChain(linen.Module):
    extra: bool = False

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.tanh(linen.Dense(6)(x))
        x = linen.Dense(2)(linen.tanh(linen.Dense(6)(x)))
        return linen.Dense(2)(x) if self.extra else x


def test_another_activation_is_proposed_and_refuted() -> None:
    inputs = drawn(3, 4)
    found = port.match(Chain(torch.relu), with_variables(LinenChain(), inputs), inputs)
    assert not found and not found.open and len(found.mapping.entries) == 6
    assert found.report is not None and not found.report.agree
    assert found.sentence.startswith("A mapping is proposed, and the two models differ with it.")


@pytest.mark.sweep
def test_a_model_that_goes_through_float32_is_proved_as_far_as_that_goes() -> None:
    inputs = drawn(3, 4)
    rounded = Chain(lambda x: torch.tanh(x.float()).to(x.dtype))
    found = port.match(rounded, with_variables(LinenChain(), inputs), inputs)
    assert found.is_proved and any("float32" in remark for remark in found.remarks)
    # A fault of another kind is as visible as before.
    other = Chain(lambda x: torch.tanh(x.float()).to(x.dtype) * 1.001)
    assert not port.match(other, with_variables(LinenChain(), inputs), inputs)


class Shifted(Chain):
    """With a constant that is a parameter, and is not trained."""

    def __init__(self, *, trained: bool) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.sin(torch.arange(4.0)), requires_grad=trained)

    def forward(self, x: Any) -> Any:
        return super().forward(x + self.shift)


class LinenShifted(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return LinenChain()(x + jnp.sin(jnp.arange(4.0, dtype=jnp.float32)))


def test_a_parameter_that_is_not_trained_needs_no_twin() -> None:
    inputs = drawn(3, 4)
    flax = with_variables(LinenShifted(), inputs)
    found = port.match(Shifted(trained=False), flax, inputs)
    assert not found.open and [row.torch for row in found.rows if row.by == "no twin needed"] == [("shift",)]
    assert [row.torch for row in port.match(Shifted(trained=True), flax, inputs).open] == [("shift",)]


class Spare(Chain):
    """With an embedding for what is masked, which only pre-training uses."""

    def __init__(self, *, used: bool = False) -> None:
        super().__init__()
        self.mask_token, self.used = torch.nn.Parameter(torch.rand(7)), used

    def forward(self, x: Any) -> Any:
        return super().forward(x) + (self.mask_token.sum() if self.used and self.training else 0.0)


class LinenSpare(linen.Module):
    used: bool = False

    @linen.compact
    def __call__(self, x: Any, train: bool = False) -> Any:
        spare = self.param("masked_embed", linen.initializers.normal(), (9,))
        return LinenChain(name="chain")(x) + (spare.sum() if self.used and train else 0.0)


@pytest.mark.sweep
def test_a_parameter_that_takes_no_part_needs_no_twin(tmp_path: Path) -> None:
    inputs = drawn(3, 4)
    plain, spare = with_variables(LinenChain(), inputs), with_variables(LinenSpare(), inputs)
    found = port.match(Spare(), plain, inputs)
    assert found and [row.torch for row in found.rows if row.by == "no twin needed"] == [("mask_token",)]
    found = port.match(Chain(), spare, inputs)
    assert found and [row.flax for row in found.rows if row.by == "no twin needed"] == [("masked_embed",)]
    found.save(tmp_path / "m.toml")
    assert port.check(Chain(), spare, inputs, rename=tmp_path / "m.toml", weights="torch")
    assert [row.torch for row in port.match(Spare(used=True), plain, inputs).open] == [("mask_token",)]
    used = with_variables(LinenSpare(used=True), inputs)
    assert [row.flax for row in port.match(Chain(), used, inputs).open] == [("masked_embed",)]
    found = port.match(Chain(), used, inputs, rename=Rules(keep=("masked_embed",)))
    assert not found.open and not found, "what the user keeps has no twin, and a part in training"


def test_a_layer_too_many_stays_open() -> None:
    inputs = drawn(3, 4)
    found = port.match(Chain(), with_variables(LinenChain(extra=True), inputs), inputs)
    (row,) = found.open
    assert row.flax == ("Dense_3.bias", "Dense_3.kernel") and not row.torch and found.report is None


def test_a_layer_of_another_width_stays_open_on_both_sides() -> None:
    inputs = drawn(3, 4)
    found = port.match(Chain(width=5), with_variables(LinenChain(), inputs), inputs)
    assert {row.torch[0] for row in found.open if row.torch} == {"b.weight", "c.weight"}
    assert {row.flax[1] for row in found.open if row.flax} == {"Dense_1.kernel", "Dense_2.kernel"}


@pytest.mark.sweep
def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(UsageError, match="swapped"):
        port.match(vision.NnxFlattenNet(nnx.Rngs(0)), Chain(), drawn(3, 4))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not take the inputs"):
        port.match(Chain(), with_variables(LinenChain(), drawn(3, 4)), drawn(3, 5))


@pytest.mark.sweep
def test_a_norm_with_another_epsilon_is_found() -> None:
    module, flax, inputs = CASES["mixer"]()
    for layer in module.modules():
        if isinstance(layer, torch.nn.LayerNorm):
            layer.eps = 1e-3
    found = port.match(module, flax, inputs)
    assert not found.is_proved and not found.open and found.report is not None
