"""What a person writes about two models: rules and folds, and what they do to the weights."""

from __future__ import annotations

import re

import numpy as np
import pytest

from port.errors import UsageError, WeightsMismatch
from port.mapping import Rule, Rules, between, names_only, read_mapping
from port.mapping.guide import Guide


def arrays_of(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def guides(torch: dict[str, tuple[int, ...]], flax: dict[str, tuple[int, ...]]) -> tuple[Guide, Guide]:
    return names_only("torch", arrays_of(torch)), names_only("flax", arrays_of(flax))


def carried(rules: Rules, torch: dict[str, tuple[int, ...]], flax: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    arrays = arrays_of(torch)
    return {
        target: array
        for entry in rules.entries(*guides(torch, flax))
        for target, array in zip(entry.targets, entry(tuple(arrays[name] for name in entry.sources)), strict=True)
    }


def test_a_fused_projection_is_split_and_given_heads(tmp_path):
    (tmp_path / "m.toml").write_text(
        "[[rule]]\nsource = 'blocks\\.(\\d+)\\.qkv\\.weight'\n"
        "target = ['blocks.\\1.q.kernel', 'blocks.\\1.k.kernel', 'blocks.\\1.v.kernel']\n"
        "moves = [{split = 3}, {permute = [1, 0]}, {reshape = [6, 2, -1]}]\n"
    )
    rules = read_mapping(tmp_path / "m.toml")
    assert isinstance(rules, Rules)
    torch = {f"blocks.{n}.qkv.weight": (12, 6) for n in (0, 1)}
    flax = {f"blocks.{n}.{part}.kernel": (6, 2, 2) for n in (0, 1) for part in "qkv"}
    found = carried(rules, torch, flax)
    assert set(found) == set(flax)
    weight, x = arrays_of(torch)["blocks.1.qkv.weight"], np.arange(6.0)
    for place, part in enumerate("qkv"):
        by_head = np.einsum("i,ihd->hd", x, found[f"blocks.1.{part}.kernel"])
        np.testing.assert_allclose(by_head.ravel(), (weight @ x)[4 * place : 4 * place + 4], rtol=1e-13)


def test_keys_that_go_to_one_place_are_stacked_in_natural_order():
    rule = Rule((r"h\.(\d+)\.w",), ("h.w",), ({"permute": [1, 0]}, {"stack": 0}))
    torch = {f"h.{n}.w": (2, 3) for n in (10, 2, 1, 0, *range(3, 10))}
    found = carried(Rules(rules=(rule,)), torch, {"h.w": (11, 3, 2)})
    for place in range(11):
        np.testing.assert_array_equal(found["h.w"][place], arrays_of(torch)[f"h.{place}.w"].T)


def test_several_sources_are_joined():
    rule = Rule((r"(.*)\.q", r"\1.k"), (r"\1.qk",), ({"join": 0},))
    torch = {"a.q": (2, 3), "a.k": (1, 3)}
    found = carried(Rules(rules=(rule,)), torch, {"a.qk": (3, 3)})
    np.testing.assert_array_equal(found["a.qk"], np.concatenate([arrays_of(torch)["a.q"], arrays_of(torch)["a.k"]]))


def test_the_kind_of_variable_is_the_model_s_unless_it_is_said():
    torch, flax = guides({"a": (2,)}, {"a": (2,)})
    flax.leaves["a"] = flax.leaves["a"].__class__("a", (2,), "float64", "batch_stats")
    assert Rules(rules=(Rule(("a",), ("a",)),)).entries(torch, flax)[0].collection == "batch_stats"
    assert Rules(rules=(Rule(("a",), ("a",), (), "cache"),)).entries(torch, flax)[0].collection == "cache"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(("x",), ("a",)), "rule x → a: it matches no key of the torch side"),
        (Rule(("a",), ("b",)), "Flax has no b"),
        (Rule(("a", "z"), ("a",)), "torch has no z"),
        (Rule(("a",), ("a",), ({"permute": [0, 1]},)), "needs an array of 2 axes"),
        (Rule(("a",), ("a",), ({"split": 5},)), "12 elements along axis 0 cannot be split into 5"),
        (Rule(("a",), ("a",), ({"split": 2},)), "return 2 arrays for 1 targets"),
        (Rule(("a",), ("a",), ({"reshape": [3, 4]},)), "it produces shape (3, 4), a has (12,)"),
        (Rule(("a",), (r"\9",)), "invalid group reference 9"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused_by_name(rule, message):
    with pytest.raises(WeightsMismatch, match=re.escape(message)) as caught:
        Rules(rules=(rule,)).entries(*guides({"a": (12,)}, {"a": (12,)}))
    assert str(rule) in str(caught.value)


def test_all_rules_that_do_not_fit_come_in_one_message():
    rules = Rules(rules=(Rule(("x",), ("a",)), Rule(("a",), ("a",)), Rule(("y",), ("a",))))
    with pytest.raises(WeightsMismatch, match=r"(?s)rule x → a.*rule y → a"):
        rules.entries(*guides({"a": (1,)}, {"a": (1,)}))


def test_rules_speak_of_both_models():
    rules = Rules(rules=(Rule(("a",), ("a",)),))
    torch, flax = guides({"a": (1,)}, {"a": (1,)})
    for sides in ((torch, None), (None, flax)):
        with pytest.raises(UsageError, match="are about both models"):
            between(*sides, rename=rules)


def test_what_rules_speak_of_is_settled():
    from flax import nnx

    torch = {"fc.weight": (3, 2), "fc.bias": (3,), "own": (4, 5)}
    model = nnx.Dict(fc=nnx.Linear(2, 3, rngs=nnx.Rngs(0)), own=nnx.Param(np.zeros((5, 4))))
    rules = Rules(rules=(Rule(("own",), ("own",), ({"permute": [1, 0]},)),))
    arrays = arrays_of(torch)
    mapping = between(names_only("torch", arrays), model, rename=rules)
    np.testing.assert_array_equal(mapping(arrays)["own"], arrays["own"].T)
    np.testing.assert_array_equal(mapping(arrays)["fc.kernel"], arrays["fc.weight"].T)
    twice = Rules(rules=(*rules.rules, Rule(("fc.bias",), ("fc.bias",)), Rule(("fc.b.*",), ("fc.bias",))))
    with pytest.raises(WeightsMismatch, match=r"twice: source fc\.bias, target fc\.bias"):
        between(names_only("torch", arrays), model, rename=twice)
