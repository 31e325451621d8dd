"""Constructors with modules and objects as arguments: their calls are written, and construct other models."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import port
from port.errors import UsageError, WeightsMismatch
from port.translation.folder import write_folder

from .given_value_nets import BlockSetting, Trunked, large, small, trunk


@pytest.fixture(scope="module")
def translation() -> Any:
    torch.manual_seed(0)
    return port.translate(small(), torch.randn(3, 7), construct=small)


def test_the_calls_that_made_them_are_written(translation: Any) -> None:
    assert translation.proof.agrees
    source = translation.source
    assert 'BlockSetting(width=6, kind="gated"), BlockSetting(width=3, kind="plain", ratio=2.0)' in source
    assert "trunk=trunk(widths=[5, 4], **options)" in source
    assert "def trunk(widths: list[int], **options: Any) -> Any:" in source
    assert "    @staticmethod\n    def block(width: int, setting: Any, **options: Any) -> Any:" in source
    assert "blocks.append(norm(setting.width, **options))" in source
    assert "# each is as wide as its setting says\n" in source
    assert "normalized_shape: Any," in source
    assert "self.eps = eps" in source


@pytest.mark.sweep
def test_another_model_is_constructed_and_proved(translation: Any) -> None:
    torch.manual_seed(1)
    assert translation.proof_at(large).agrees
    module = large()
    made = translation.build(arguments=large, weights=module)
    made.eval()
    x = torch.randn(2, 7)
    with torch.no_grad():
        theirs = module.eval()(x).numpy()
    np.testing.assert_allclose(made(*translation.to_flax(x)), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.sweep
def test_a_fault_in_what_makes_an_argument_is_caught(translation: Any) -> None:
    """A layer of the trunk with the second one's width is right only at the translated size."""
    made = translation.elsewhere.at(large, large())
    assert "before = width\n" in made.source
    planted = replace(made, source=made.source.replace("before = width\n", "before = 5\n", 1))
    with pytest.raises(WeightsMismatch):
        planted.build()


@pytest.mark.sweep
def test_it_is_proved_at_another_where_it_is_translated() -> None:
    proof = port.translate(small(), torch.randn(3, 7), construct=small, at=large).proof
    assert proof is not None and proof.agrees
    assert any("with trunk = trunk(widths=[6, 8, 4])" in row.what for row in proof.rows)


def test_it_is_loaded_from_a_folder(translation: Any, tmp_path: Path) -> None:
    write_folder(translation, tmp_path / "made", name="trunked")
    spec = importlib.util.spec_from_file_location("trunked", tmp_path / "made" / "trunked.py")
    assert spec is not None and spec.loader is not None
    code = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(code)
    given = translation.to_flax(torch.randn(3, 7))
    np.testing.assert_array_equal(code.load()(*given), translation.build()(*given))


def nothing_like_it() -> nn.Module:
    return nn.Linear(3, 4)


def too_few() -> Trunked:
    return Trunked(trunk([5]), [BlockSetting(6, "gated")])


def other_each_time() -> Trunked:
    other_each_time.widths = [*other_each_time.widths, 4]  # type: ignore[attr-defined]
    return Trunked(trunk(other_each_time.widths), [BlockSetting(6, "gated")])  # type: ignore[attr-defined]


other_each_time.widths = []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("construct", "why"),
    [
        (nothing_like_it, "it returns a Linear, but the translation is of Trunked"),
        (other_each_time, "a second call constructs a different model"),
    ],
)
def test_what_is_no_other_model_is_refused(translation: Any, construct: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        translation.proof_at(construct)


def test_one_that_takes_other_inputs_is_refused(translation: Any) -> None:
    """Its first block does not have its trunk's width."""
    with pytest.raises(UsageError, match="the other original refuses the example inputs"):
        translation.proof_at(too_few)
