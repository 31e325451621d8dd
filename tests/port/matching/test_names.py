"""Names: their words, the projections they mean, and which of several mean the same."""

from __future__ import annotations

import pytest

from port.matching.names import projection, told_apart, words


def test_words_are_in_their_usual_forms() -> None:
    assert words("encoder.layers_0.q_proj") == ["encoder", "", "0", "query", ""]
    assert words("TransformerBlock_3.attn.wo") == ["transformer", "", "3", "attention", "out"]


@pytest.mark.parametrize(("name", "meant"), [("a.k_proj", ("attention", 1)), ("mlp.up", ("gated", 1)), ("a.fc1", None)])
def test_projections(name: str, meant: tuple[str, int] | None) -> None:
    assert projection(name) == meant


def test_names_that_mean_the_same() -> None:
    assert told_apart(["fc_mu", "fc_logvar"], ["logvar_head", "mean_head"]) == (1, 0)
    assert told_apart(["left", "right"], ["Dense_0", "Dense_1"]) is None
    assert told_apart(["a.q", "a.k", "a.v"], ["value", "query", "key"]) == (2, 0, 1)
    assert told_apart(["left"], ["left", "right"]) is None and told_apart([], []) is None
