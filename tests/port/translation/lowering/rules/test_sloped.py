"""A value with an explicit gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import port.nn.functional as F
import port.translation.frontend.custom_ops  # noqa: F401 - registers the operator

from ...ir.graphs import operation, value
from ..by_hand import lowered_graph

pytestmark = pytest.mark.usefixtures("float64")


def test_it_is_written_and_has_that_gradient() -> None:
    y, x, slope, made = value("y", 3, 2), value("x", 3, 2), value("slope", 2), value("made", 3, 2)
    step = operation("port_translation.sloped.default", made, y=y, x=x, slope=slope)
    _, (text,) = lowered_graph(step, inputs=[y, x, slope], results=made)
    given = {"y": jnp.ones((3, 2)), "slope": jnp.array([2.0, -0.5])}
    value_, gradient = jax.value_and_grad(lambda x: eval(text, {"F": F, "x": x, **given}).sum())(jnp.zeros((3, 2)))
    assert value_ == 6
    assert (gradient == given["slope"]).all()
