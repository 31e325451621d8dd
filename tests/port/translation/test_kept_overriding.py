"""Constructors that are written as the original has them, of classes that take the place of a part of their base."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from flax import nnx

import port
from port.translation.verify import prove
from tests.port.translation.overriding_nets import Negating, Overriding

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.sweep]
X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
CONSTRUCT = partial(Overriding, last=Negating)


@pytest.fixture(scope="module")
def overriding() -> tuple[Overriding, Any]:
    torch.manual_seed(0)
    module = CONSTRUCT()
    made = port.translate(module, X, construct=CONSTRUCT, static=True, sizes_limit=0.0)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    return module, made


def test_a_method_in_the_place_of_another_is_called_by_the_constructor_of_the_base(overriding: Any) -> None:
    _, made = overriding
    assert made.elsewhere.keeps_constructors
    base, _, other = made.source.partition("class Computed(Biased):")
    assert "self.define_table(**options)" in base and "self.define_index()" in base
    assert "def define_table(self, **options: Any) -> Any:\n        pass\n" in base
    assert "self.coordinates = Buffer(" in other and "define_index" not in other


def test_without_it_the_model_is_not_there(overriding: Any) -> None:
    module, made = overriding
    other = replace(made, source=made.source.replace("        self.define_table(**options)\n", ""))
    assert other.source != made.source
    assert not prove(module, other, (X,), {}).agrees


def test_a_default_that_is_not_written_is_refused(overriding: Any, tmp_path: Path) -> None:
    _, made = overriding
    written: dict[str, Any] = {"__name__": "overriding", "__file__": str(tmp_path / "overriding.py")}
    exec(compile(made.source, "overriding.py", "exec"), written)
    with pytest.raises(NotImplementedError, match="Overriding is written without Halving, which last is by default"):
        written["Overriding"](rngs=nnx.Rngs(0))
    assert written["Overriding"](last=written["Negating"], rngs=nnx.Rngs(0)).last.fc.bias is None


def test_the_items_of_a_sequential_with_a_forward_of_its_own_are_attributes(overriding: Any) -> None:
    module, made = overriding
    head = made.source.partition("class Pooled(nnx.Module):")[2]
    assert "self.layer_0 = nnx.Linear(dim, dim, " in head and "self.layer_2 = nnx.Linear(" in head
    wrong = replace(made, source=made.source.replace("jnp.mean(x, axis=1)", "jnp.sum(x, axis=1)"))
    assert wrong.source != made.source and not prove(module, wrong, (X,), {}).agrees
