"""What the figures draw is what the records hold."""

from __future__ import annotations

import json
import math
from itertools import accumulate

from port.report.page.curves import evaluations, figure_of_losses, losses, not_finite
from port.report.page.page import in_script
from port.report.page.subject import subject_of
from port.training import Remains

from .conftest import falling


def test_every_number_is_the_records_to_the_last_bit(make_outcome):
    torch = [loss / 3 for loss in falling(60)]
    jax = [math.nextafter(loss, 9) for loss in torch]
    outcome = make_outcome(torch, jax)
    figure = json.loads(in_script(figure_of_losses(subject_of(outcome), 1000)[0]))
    assert figure["steps"] == list(range(60))
    assert (figure["a"], figure["b"]) == (torch, jax)
    assert figure["differences"] == outcome.verdict.steps.values
    assert figure["limits"] == 1e-9
    assert figure["evaluations"]["steps"] == [9, 19, 29, 39, 49, 59]
    assert figure["evaluations"]["a"] == [line.loss for line in outcome.torch.evaluations.values()]
    assert figure["first"] is None


def test_the_band_is_the_furthest_that_a_control_has_strayed(make_outcome):
    base = falling(30)
    outcome = make_outcome(
        base, base, [x * 1.001 for x in base], [x * 1.01 for x in base[:5]] + base[5:], name="float32"
    )
    curves = losses(subject_of(outcome))
    strayed = [max(values) for values in zip(*outcome.verdict.steps.controls, strict=True)]
    assert curves.band == list(accumulate(strayed, max))
    assert curves.limits == outcome.verdict.steps.limits


def test_a_long_run_is_thinned_and_keeps_its_first_difference(make_outcome):
    torch, jax = falling(3000), falling(3000, parted=1234)
    torch[777] = jax[777] = 17.0
    drawn, curves = figure_of_losses(subject_of(make_outcome(torch, jax)), 200)
    assert curves.is_thinned
    assert curves.of == 3000
    assert len(drawn["steps"]) < 220
    assert {0, 777, 1234, 2999} <= set(drawn["steps"])
    assert drawn["first"] == 1234
    assert [torch[step] for step in drawn["steps"]] == drawn["a"]
    assert [jax[step] for step in drawn["steps"]] == drawn["b"]


def test_what_is_not_finite_is_a_gap_and_a_sentence(make_outcome):
    jax = falling(20)
    jax[7] = math.nan
    subject = subject_of(make_outcome(falling(20), jax))
    curves = losses(subject)
    assert (curves.sides[1][7], curves.differences[7]) == (None, None)
    assert curves.sides[0][7] == falling(20)[7]
    assert not_finite(subject) == ["jax's loss is not finite at step 7 (nan): a gap in its curve."]


def test_a_side_that_is_shorter_or_missing_ends(make_outcome):
    outcome = make_outcome(falling(20), falling(12))
    curves = losses(subject_of(outcome))
    assert curves.steps == list(range(20))
    assert curves.sides[1][12:] == [None] * 8
    alone = subject_of(Remains("float64", outcome.torch, None, (), None, {"jax": "it recorded nothing"}))
    assert losses(alone).sides[1] == [None] * 20
    assert evaluations(alone).steps == [9, 19]
