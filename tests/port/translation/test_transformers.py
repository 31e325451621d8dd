"""Architectures of ``transformers``: one source at two sizes, with and without a mask, another length among them."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="an extra of the tests'")

import port

from .transformers_models import ARCHITECTURES, Architecture


@pytest.mark.sweep
@pytest.mark.daily(6)
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_one_source_is_the_same_model_at_two_sizes(architecture: Architecture) -> None:
    larger = {f"config.{name}": value for name, value in architecture.larger.items()}
    module = architecture.build()
    construct = architecture.build if architecture.is_told else None
    made = port.translate(module, cases=architecture.inputs(), construct=construct, at=larger)
    assert made.proof is not None
    assert made.proof.agrees, str(made.proof)
    print(f"\n{architecture.name}: {len(made.source.splitlines())} lines, {len(made.settings.tried)} tried")
    for what, why in made.settings.fixed.items():
        print(f"  {what}: {why}")
    rows = [row.what for row in made.proof.rows]
    for name in ("outputs in evaluation", "gradients in training"):
        assert any(what.startswith(name) and "with config." in what for what in rows)
    numbers = range(2, 1 + len(architecture.inputs()))
    assert all(
        any(f"in example call {number}" in what and "with config." in what for what in rows) for number in numbers
    )
