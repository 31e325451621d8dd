"""Two records of the same run agree; whatever parts them is found, named, and never passed over."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port import records
from port.errors import BrokenRecord, UnknownChoice, UsageError
from port.judging import worst
from port.judging.limits import CONTROL_FACTOR, EARLY_LIMIT, EARLY_STEPS, LATER_FLOOR, PROOF_LIMIT
from port.records import Record, Recorder, RecordLine, Status, Verdict
from port.records.comparison import parts_late
from port.records.limits import (
    control_limits,
    early_limit,
    later_floor,
    relative_differences,
)

LONG = EARLY_STEPS + 10  # steps of a run that outlasts the early ones
LATER = EARLY_STEPS + 3  # a step that is not early

Losses = Sequence[float] | dict[int, float]


def compare(*both: Any, **options: Any) -> Verdict:
    """Both records compared; whatever comes of it, the rows say the same as the verdict."""
    verdict = records.compare(*both, **options)
    assert worst(row.status for row in verdict.rows) is verdict.status, (verdict.sentence, verdict.rows)
    return verdict


def lines(losses: Losses, more: Callable[[int], dict[str, Any]] = lambda step: {}) -> dict[int, RecordLine]:
    numbered = losses if isinstance(losses, dict) else dict(enumerate(losses))
    return {step: RecordLine(step, loss, None, more(step)) for step, loss in numbered.items()}


def record(
    losses: Losses,
    *,
    side: str = "torch",
    precision: str | None = "float64",
    evaluations: Losses = (),
    more: Callable[[int], dict[str, Any]] = lambda step: {},
) -> Record:
    return Record(
        path=Path(f"{side}.jsonl"),
        about={"side": side, "precision": precision},
        steps=lines(losses, more),
        evaluations=lines(evaluations),
        finished=True,
    )


def both(a: Losses, b: Losses, **options: Any) -> tuple[Record, Record]:
    return record(a, **options), record(b, side="jax", **options)


def changed(losses: Sequence[float], step: int, to: float) -> list[float]:
    return [*losses[:step], to, *losses[step + 1 :]]


def without(losses: Sequence[float], step: int) -> dict[int, float]:
    return {number: loss for number, loss in enumerate(losses) if number != step}


def apart(difference: float) -> float:
    """A loss that is this far, relatively, from 1."""
    return 1 - difference


def furthest_within(limit: float) -> float:
    """The float below 1 that is as far from it as a limit allows."""
    loss = apart(limit)
    while 1 - loss > limit:
        loss = math.nextafter(loss, 1)
    while 1 - math.nextafter(loss, 0) <= limit:
        loss = math.nextafter(loss, 0)
    return loss


def nearest_beyond(limit: float) -> float:
    return math.nextafter(furthest_within(limit), 0)


def assert_differs(verdict: Verdict, step: int, where: str = "step", saying: str = "") -> None:
    assert verdict.status is Status.DIFFER, verdict.sentence
    assert verdict.first is not None
    assert (verdict.first.where, verdict.first.step) == (where, step)
    assert verdict.first.why in verdict.sentence
    assert "differ" in verdict.sentence
    assert saying in verdict.sentence


ONES = [1.0] * LONG
PLACES = [0, LONG // 2, LONG - 1]


class TestProof:
    @pytest.mark.parametrize("step", PLACES)
    def test_the_limit_holds_at_every_step(self, step: int) -> None:
        within = compare(*both(ONES, changed(ONES, step, furthest_within(PROOF_LIMIT))))
        assert (within.status, within.findings, within.judged_until) == (Status.AGREE, [], None)
        assert within.steps.largest() == (step, pytest.approx(PROOF_LIMIT))
        assert "the same" in within.sentence

        for a, b in ((0, 1), (1, 0)):
            losses = ONES, changed(ONES, step, nearest_beyond(PROOF_LIMIT))
            beyond = compare(*both(losses[a], losses[b]))
            assert_differs(beyond, step, saying=f"step {step}")
            assert beyond.first is not None
            assert beyond.first.difference == pytest.approx(PROOF_LIMIT)
            assert beyond.first.limit == PROOF_LIMIT

    def test_exactly_the_limit_is_allowed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("port.records.comparison.PROOF_LIMIT", 0.5)
        assert compare(*both([1.0], [0.5])).status is Status.AGREE
        assert_differs(compare(*both([1.0], [0.5 - 2**-53])), 0)

    @pytest.mark.parametrize("step", PLACES)
    def test_the_limit_holds_at_every_evaluation(self, step: int) -> None:
        a = record(ONES, evaluations=ONES)
        near, far = (
            record(ONES, side="jax", evaluations=changed(ONES, step, place(PROOF_LIMIT)))
            for place in (furthest_within, nearest_beyond)
        )
        assert compare(a, near).status is Status.AGREE
        assert_differs(compare(a, far), step, "evaluation", f"the evaluation after step {step}")

    def test_the_first_parting_is_the_one_told(self) -> None:
        verdict = compare(*both(ONES, [*ONES[:7], *[0.5] * (LONG - 7)]))
        assert_differs(verdict, 7)
        assert len(verdict.findings) == 1

    def test_an_earlier_evaluation_comes_first(self) -> None:
        a = record(ONES, evaluations={3: 1.0})
        b = record(changed(ONES, 5, 0.5), side="jax", evaluations={3: 0.5})
        verdict = compare(a, b)
        assert_differs(verdict, 3, "evaluation")
        assert [(finding.where, finding.step) for finding in verdict.findings] == [("evaluation", 3), ("step", 5)]

    def test_controls_that_stay_near_change_nothing_about_it(self) -> None:
        b = changed(ONES, LATER, nearest_beyond(PROOF_LIMIT))
        near = [record([1.0 + 0.9 * PROOF_LIMIT / CONTROL_FACTOR] * LONG, side="control")]
        assert_differs(compare(*both(ONES, b), controls=near), LATER)

    @pytest.mark.parametrize("sign", [1, -1])
    def test_a_loss_far_below_the_largest_is_known_to_its_rounding_alone(self, sign: int) -> None:
        """1e-6 of the largest loss so far is the least that a difference is divided by."""
        tiny = 1e-9
        floor = 1e-6 * PROOF_LIMIT  # absolute, after a loss of 1
        for before, allowed in ((1.0, floor), (tiny, tiny * PROOF_LIMIT)):
            for factor, status in ((0.9, Status.AGREE), (1.1, Status.DIFFER)):
                b = [before, tiny + sign * factor * allowed]
                assert compare(*both([before, tiny], b)).status is status

    def test_a_loss_of_zero(self) -> None:
        assert compare(*both([0.0, 0.0], [0.0, -0.0])).status is Status.AGREE
        assert_differs(compare(*both([0.0, 0.0], [0.0, 5e-324])), 1)

    def test_losses_of_unlike_sign(self) -> None:
        assert_differs(compare(*both([1.0, 1e308], [1.0, -1e308])), 1)

    @settings(deadline=None, max_examples=100)
    @given(losses=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
    def test_a_record_agrees_with_itself(self, losses: list[float]) -> None:
        verdict = compare(*both(losses, losses, evaluations=losses))
        assert verdict.status is Status.AGREE
        assert set(verdict.steps.values + verdict.evaluations.values) == {0.0}

    @settings(deadline=None, max_examples=100)
    @given(data=st.data())
    def test_one_wrong_step_is_always_found(self, data: st.DataObject) -> None:
        losses = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40))
        step = data.draw(st.integers(0, len(losses) - 1))
        factor = 1 + data.draw(st.sampled_from([1, -1])) * data.draw(st.floats(2 * PROOF_LIMIT, 0.5))
        verdict = compare(*both(losses, changed(losses, step, losses[step] * factor)))
        assert_differs(verdict, step)
        assert len(verdict.findings) == 1


class TestNotComparable:
    @pytest.mark.parametrize(("place", "lacking"), list(product(PLACES, ["torch", "jax"])))
    @pytest.mark.parametrize("precision", ["float64", "float32"])
    def test_a_missing_step(self, place: int, lacking: str, precision: str) -> None:
        losses: list[Losses] = [ONES, without(ONES, place)]
        if lacking == "torch":
            losses.reverse()
        verdict = compare(*both(*losses, precision=precision))
        assert_differs(verdict, place, saying=f"not in {lacking}'s")

    def test_a_run_that_ended_sooner(self) -> None:
        assert_differs(compare(*both(ONES, ONES[:-4])), LONG - 4, saying="(4 such in all)")

    @pytest.mark.parametrize("place", PLACES)
    def test_a_missing_evaluation(self, place: int) -> None:
        a, b = record(ONES, evaluations=ONES), record(ONES, side="jax", evaluations=without(ONES, place))
        assert_differs(compare(a, b), place, "evaluation", f"evaluation {place} is in torch's record but not in jax's")
        assert_differs(compare(b, a), place, "evaluation", f"evaluation {place} is in torch's record but not in jax's")

    def test_no_step_in_common(self) -> None:
        assert_differs(compare(*both({0: 1.0, 1: 1.0}, {2: 1.0, 3: 1.0})), 0)

    def test_a_record_without_a_step_is_not_judged(self) -> None:
        for pair in (both([], []), both([1.0], []), both([], [1.0])):
            with pytest.raises(UsageError, match="has no steps"):
                compare(*pair)

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("precision", ["float64", "float32"])
    def test_a_loss_that_is_not_finite(self, place: int, loss: float, precision: str) -> None:
        broken = changed(ONES, place, loss)
        for pair in ((ONES, broken), (broken, ONES), (broken, broken)):
            verdict = compare(*both(*pair, precision=precision))
            assert_differs(verdict, place, saying=f"not finite at step {place}")

    @pytest.mark.parametrize("loss", [math.nan, math.inf])
    def test_an_evaluation_that_is_not_finite(self, loss: float) -> None:
        verdict = compare(*both(ONES, ONES, evaluations={4: 1.0, 9: loss}))
        assert_differs(verdict, 9, "evaluation", "not finite at evaluation 9")

    def test_what_comes_after_a_nan_is_judged_still(self) -> None:
        broken = changed(ONES, 2, math.nan)
        verdict = compare(*both(broken, changed(broken, 6, 0.5)))
        assert [finding.step for finding in verdict.findings] == [2, 6]


class TestLowerPrecision:
    def test_a_run_of_early_steps_alone_agrees(self) -> None:
        short = [1.0] * EARLY_STEPS
        verdict = compare(*both(short, changed(short, EARLY_STEPS - 1, apart(0.9 * EARLY_LIMIT)), precision="float32"))
        assert (verdict.status, verdict.judged_until) == (Status.AGREE, None)
        assert "float32" in verdict.sentence
        assert "the same" not in verdict.sentence

    def test_one_step_more_cannot_be_judged(self) -> None:
        last = [*[1.0] * EARLY_STEPS, apart(1e-7)]
        verdict = compare(*both([1.0] * (EARLY_STEPS + 1), last, precision="float32"))
        assert (verdict.status, verdict.judged_until) == (Status.CANNOT_JUDGE, EARLY_STEPS - 1)
        assert f"up to step {EARLY_STEPS - 1} and cannot be judged beyond it" in verdict.sentence
        assert not {"same", "equal", "identical"} & set(verdict.sentence.split())

    def test_an_evaluation_after_the_early_steps_cannot_be_judged(self) -> None:
        short = [1.0] * EARLY_STEPS
        for step, status in ((EARLY_STEPS - 1, Status.AGREE), (EARLY_STEPS, Status.CANNOT_JUDGE)):
            a = record(short, precision="float32", evaluations={step: 1.0})
            verdict = compare(a, record(short, side="jax", precision="float32", evaluations={step: apart(1e-7)}))
            assert verdict.status is status
        assert verdict.judged_until == EARLY_STEPS - 1

    def test_an_early_evaluation_is_judged(self) -> None:
        short = [1.0] * EARLY_STEPS
        a = record(short, precision="float32", evaluations={0: 1.0})
        b = record(short, side="jax", precision="float32", evaluations={0: apart(1.1 * EARLY_LIMIT)})
        assert_differs(compare(a, b), 0, "evaluation")

    @pytest.mark.parametrize("step", [0, EARLY_STEPS - 1])
    def test_early_steps_are_judged_by_themselves(self, step: int) -> None:
        wild = [record([5.0] * LONG, side="control", precision="float32")]
        for length, controls in ((LONG, []), (LONG, wild), (EARLY_STEPS, [])):
            losses = [1.0] * length
            b = changed(losses, step, apart(1.1 * EARLY_LIMIT))
            assert_differs(compare(*both(losses, b, precision="float32"), controls=controls), step)

    def test_early_is_a_matter_of_the_steps_numbers(self) -> None:
        """A record of every 100th step has one early step; one that begins at step 100 has as many as any."""
        far = apart(2 * EARLY_LIMIT)
        sparse = {100 * number: 1.0 for number in range(LONG)}
        verdict = compare(*both(sparse, {**sparse, 100: far}, precision="float32"))
        assert (verdict.status, verdict.judged_until) == (Status.CANNOT_JUDGE, 0)
        resumed = {100 + number: 1.0 for number in range(LONG)}
        last = 100 + EARLY_STEPS - 1
        assert_differs(compare(*both(resumed, {**resumed, last: far}, precision="float32")), last)
        verdict = compare(*both(resumed, {**resumed, last + 1: far}, precision="float32"))
        assert (verdict.status, verdict.judged_until) == (Status.CANNOT_JUDGE, last)

    @pytest.mark.parametrize(("precision", "coarser"), [("float16", 2**13), ("bfloat16", 2**16)])
    def test_a_coarser_type_is_allowed_more(self, precision: str, coarser: int) -> None:
        assert early_limit(precision) == min(EARLY_LIMIT * coarser, 0.1)
        assert LATER_FLOOR < later_floor(precision) < 1  # beyond 1 no two losses of one sign are apart
        b = apart(0.9 * early_limit(precision))
        assert compare(*both([1.0], [b], precision=precision)).status is Status.AGREE
        assert_differs(compare(*both([1.0], [b], precision="float32")), 0)
        assert_differs(compare(*both([1.0], [-1.0], precision=precision)), 0)  # if not, its limit judges nothing

    @pytest.mark.parametrize("precision", [None, "float32", "float8"])
    def test_an_unknown_precision_is_judged_as_float32(self, precision: str | None) -> None:
        for factor, status in ((0.9, Status.AGREE), (1.1, Status.DIFFER)):
            verdict = compare(*both([1.0], [apart(factor * EARLY_LIMIT)], precision=precision))
            assert verdict.status is status
        late = changed(ONES, LATER, apart(1e-7))
        assert compare(*both(ONES, late, precision=precision)).status is Status.CANNOT_JUDGE

    @pytest.mark.parametrize("precision", [None, "float32", "bfloat16"])
    def test_what_is_equal_to_the_last_bit_agrees(self, precision: str | None) -> None:
        verdict = compare(*both(ONES, ONES, precision=precision, evaluations={LATER: 0.5}))
        assert (verdict.status, verdict.judged_until) == (Status.AGREE, None)
        assert "the same losses to the last bit" in verdict.sentence
        last = changed(ONES, LONG - 1, apart(1e-7))
        assert compare(*both(ONES, last, precision=precision)).status is Status.CANNOT_JUDGE

    def test_two_records_of_one_side_are_called_by_their_files(self) -> None:
        a = record(ONES, precision="float32")
        verdict = compare(a, replace(a, path=Path("again.jsonl")))
        assert verdict.sentence.startswith("torch and again have")


class TestLaterBeginning:
    """A run that was resumed or handed over at step 100."""

    WHOLE: ClassVar = {step: 1 / (1 + step) for step in range(120)}
    LATER: ClassVar = {step: loss for step, loss in WHOLE.items() if step >= 100}

    @pytest.mark.parametrize("precision", ["float64", "float32"])
    def test_it_is_compared_from_there_on(self, precision: str) -> None:
        whole = record(self.WHOLE, precision=precision, evaluations={50: 1.0, 110: 0.5})
        later = record(self.LATER, side="jax", precision=precision, evaluations={110: 0.5})
        for a, b in ((whole, later), (later, whole)):
            verdict = compare(a, b)
            assert verdict.status is Status.AGREE
            assert verdict.steps.steps == list(range(100, 120))
            assert "have steps from 100 on, where jax begins; the 100 steps before are not compared" in verdict.sentence

    def test_a_fault_in_it_differs(self) -> None:
        later = record({**self.LATER, 105: 0.5}, side="jax")
        assert_differs(compare(record(self.WHOLE), later), 105)
        assert_differs(
            compare(record(self.WHOLE), record({s: self.WHOLE[s] for s in self.LATER if s != 107}, side="jax")), 107
        )

    def test_its_first_steps_are_early_ones_and_its_controls_may_begin_with_it(self) -> None:
        off = {**self.LATER, 101: self.LATER[101] * apart(2 * EARLY_LIMIT)}
        whole = record(self.WHOLE, precision="float32")
        assert_differs(compare(whole, record(off, side="jax", precision="float32")), 101)
        last = {**self.LATER, 119: self.LATER[119] * apart(1e-6)}
        later = record(last, side="jax", precision="float32")
        control = record(self.LATER, side="control", precision="float32")
        assert compare(whole, later).status is Status.CANNOT_JUDGE
        assert compare(whole, later, controls=[control]).status is Status.AGREE

    def test_one_that_counts_from_1_differs(self) -> None:
        shifted = {step + 1: loss for step, loss in self.WHOLE.items()}
        assert_differs(compare(record(self.WHOLE), record(shifted, side="jax")), 0, "step", "count its steps from 1")

    def test_one_that_begins_behind_the_others_end_differs(self) -> None:
        verdict = compare(record(dict(enumerate(ONES))), record(self.LATER, side="jax"))
        assert verdict.status is Status.DIFFER


class TestControls:
    FAR = 2 * max(EARLY_LIMIT, LATER_FLOOR)  # how far the control strays

    def strayed(self, by: float = FAR, since: int = LATER, until: int = LONG) -> Record:
        losses = [apart(by) if since <= step < until else 1.0 for step in range(LONG)]
        return record(losses, side="control", precision="float32")

    def judged(self, b: Losses, controls: Sequence[Record], a: Losses = ONES) -> Verdict:
        return compare(*both(a, b, precision="float32"), controls=controls)

    def test_a_run_within_the_factor_agrees(self) -> None:
        allowed = CONTROL_FACTOR * self.FAR
        b = [*ONES[:LATER], *[apart(0.99 * allowed)] * (LONG - LATER)]
        verdict = self.judged(b, [self.strayed()])
        assert (verdict.status, verdict.judged_until) == (Status.AGREE, None)
        assert "about as far apart in float32 as torch is from itself" in verdict.sentence
        assert "differ by up to 3.96e-03, at step 5, and by up to 4.00e-04 between torch and torch" in verdict.sentence
        nearer = self.judged([*ONES[:LATER], *[apart(0.9 * self.FAR)] * (LONG - LATER)], [self.strayed()])
        assert "no further apart in float32 than torch is from itself" in nearer.sentence
        least = self.judged([*ONES[:LATER], *[apart(0.9 * LATER_FLOOR)] * (LONG - LATER)], [self.strayed()])
        assert "as equal as float32 can say" in least.sentence
        assert verdict.steps.controls == [[pytest.approx(self.FAR if step >= LATER else 0.0) for step in range(LONG)]]

    def test_a_run_beyond_it_differs_at_that_step(self) -> None:
        beyond = apart(1.01 * CONTROL_FACTOR * self.FAR)
        assert_differs(self.judged(changed(ONES, LATER + 2, beyond), [self.strayed()]), LATER + 2)

    def test_a_control_that_never_strayed_allows_the_floor(self) -> None:
        still = record(ONES, side="control", precision="float32")
        for factor, status in ((0.99, Status.AGREE), (1.01, Status.DIFFER)):
            b = changed(ONES, LATER, apart(factor * LATER_FLOOR))
            assert self.judged(b, [still]).status is status

    def test_an_excursion_allows_a_later_one_and_not_an_earlier(self) -> None:
        control = self.strayed(since=LATER, until=LATER + 1)
        far = apart(0.99 * CONTROL_FACTOR * self.FAR)
        assert self.judged(changed(ONES, LONG - 1, far), [control]).status is Status.AGREE
        assert self.judged(changed(ONES, LATER, far), [control]).status is Status.AGREE
        assert_differs(self.judged(changed(ONES, LATER - 1, far), [control]), LATER - 1)

    def test_the_furthest_control_counts(self) -> None:
        b = changed(ONES, LATER + 1, apart(0.99 * CONTROL_FACTOR * self.FAR))
        near = self.strayed(by=self.FAR / 2)
        for controls, status in (([near], Status.DIFFER), ([near, self.strayed()], Status.AGREE)):
            for ordered in (controls, controls[::-1]):
                assert self.judged(b, ordered).status is status

    def test_evaluations_have_the_controls_evaluations(self) -> None:
        def run(side: str, loss: float) -> Record:
            return record(ONES, side=side, precision="float32", evaluations={LATER: loss})

        control = run("control", apart(self.FAR))
        for factor, status in ((0.99, Status.AGREE), (1.01, Status.DIFFER)):
            b = run("jax", apart(factor * CONTROL_FACTOR * self.FAR))
            assert compare(run("torch", 1.0), b, controls=[control]).status is status

    @pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("first", [True, False])
    def test_a_control_that_left_the_finite_numbers(self, loss: float, first: bool) -> None:
        """Rounding alone led there: from then on there is no limit. Before it, and on the run's own NaN, there is."""
        control = record([*ONES[:LATER], *[loss] * (LONG - LATER)], side="control", precision="float32")
        controls = [control, self.strayed(since=EARLY_STEPS)]
        controls = controls if first else controls[::-1]
        within, beyond = (apart(factor * CONTROL_FACTOR * self.FAR) for factor in (0.99, 1.01))

        b = [*ONES[:EARLY_STEPS], *[within] * (LATER - EARLY_STEPS), *[0.5] * (LONG - LATER)]
        agreeing = self.judged(b, controls)
        assert agreeing.status is Status.AGREE
        assert agreeing.steps.limits[LATER:] == [math.inf] * (LONG - LATER)
        assert_differs(self.judged(changed(ONES, LATER - 1, beyond), controls), LATER - 1)
        assert_differs(self.judged(changed(ONES, 0, apart(1.1 * EARLY_LIMIT)), controls), 0)
        assert_differs(self.judged(changed(ONES, LATER + 1, math.nan), controls), LATER + 1)
        assert_differs(self.judged(without(ONES, LATER + 1), controls), LATER + 1)

    @pytest.mark.parametrize("precision", ["float64", "bfloat16"])
    def test_a_control_in_another_precision_is_refused(self, precision: str) -> None:
        control = replace(self.strayed(), about={"precision": precision})
        with pytest.raises(
            UsageError, match=f"control.jsonl is in {precision}, but the run that it controls is in float32"
        ):
            self.judged(ONES, [self.strayed(), control])

    @pytest.mark.parametrize("place", PLACES)
    def test_a_control_that_lacks_a_step_is_refused(self, place: int) -> None:
        control = record(without(ONES, place), precision="float32", side="control")
        with pytest.raises(UsageError, match=f"control.jsonl lacks step {place} of torch.jsonl"):
            self.judged(ONES, [control])

    def test_a_control_that_lacks_an_evaluation_is_refused(self) -> None:
        a, b = both(ONES, ONES, precision="float32", evaluations={7: 1.0})
        with pytest.raises(UsageError, match="lacks evaluation 7"):
            compare(a, b, controls=[self.strayed()])

    def test_a_longer_control_does(self) -> None:
        control = record([1.0] * (LONG + 5), precision="float32", side="control")
        assert self.judged(ONES, [control]).status is Status.AGREE


class TestPrecision:
    def test_records_of_unequal_precision_differ(self) -> None:
        verdict = compare(record(ONES), record(ONES, side="jax", precision="float32"))
        assert_differs(verdict, 0, saying="torch computed in float64, jax in float32")
        assert "jax_enable_x64" in verdict.sentence
        assert verdict.precision == "float32"

    def test_unequal_lower_precisions_differ(self) -> None:
        verdict = compare(record([1.0], precision="float32"), record([1.0], side="jax", precision="bfloat16"))
        assert_differs(verdict, 0, saying="torch computed in float32, jax in bfloat16")
        assert "jax_enable_x64" not in verdict.sentence

    def test_one_that_does_not_say_is_judged_as_the_other(self) -> None:
        for told in ("float64", "float32"):
            verdict = compare(record(ONES, precision=told), record(ONES, side="jax", precision=None))
            assert verdict.precision == told

    def test_the_caller_overrides(self) -> None:
        near = changed(ONES, LATER, apart(2 * PROOF_LIMIT))
        for precision in (None, "float32", "float64"):
            pair = both(ONES, near, precision=precision)
            assert_differs(compare(*pair, precision="float64"), LATER)
            assert compare(*pair, precision="float32").status is Status.CANNOT_JUDGE
        unequal = record([1.0]), record([1.0], side="jax", precision="float32")
        assert compare(*unequal, precision="float32").status is Status.AGREE

    def test_a_precision_that_there_is_not(self) -> None:
        with pytest.raises(UnknownChoice, match="unknown precision 'fp64'; there are: float64"):
            compare(*both(ONES, ONES), precision="fp64")


class TestVerdict:
    def test_hints_name_what_else_parted_and_when(self) -> None:
        def run(side: str, lr: float, norm: float, **more: Any) -> Record:
            def at(step: int) -> dict[str, Any]:
                return {
                    "epoch": 0,
                    "lr": lr if step >= 2 else 0.1,
                    "grad_norm": norm if step >= 3 else 1.0,
                    "note": side,
                    "done": step < 9,
                    **more,
                }

            return record(changed(ONES, 4, 1.0 if side == "torch" else 0.5), side=side, more=at)

        verdict = compare(run("torch", 0.1, 1.0, only=1), run("jax", 0.2, 1.5))
        assert verdict.hints == [
            "grad_norm first parts at step 3: torch 1.0, jax 1.5",
            "lr first parts at step 2: torch 0.1, jax 0.2",
        ]
        assert compare(run("torch", 0.1, 1.0), run("jax", 0.1, 1 + 1e-12)).hints == []

    @pytest.mark.parametrize(("a", "b"), [(math.nan, 1.0), (1.0, math.inf), (math.inf, -math.inf)])
    def test_a_hint_of_what_is_not_finite(self, a: float, b: float) -> None:
        for x, y, parted in ((a, b, True), (b, a, True), (a, a, False)):
            pair = (
                record([1.0, 1.0], more=lambda step, x=x: {"norm": x}),
                record([1.0, 0.5], side="jax", more=lambda step, y=y: {"norm": y}),
            )
            assert bool(compare(*pair).hints) is parted

    def test_hints_are_given_as_tightly_as_the_run_is_judged(self) -> None:
        for precision, parted in (("float64", True), ("float32", False)):
            pair = (
                record([1.0], precision=precision, more=lambda step: {"lr": 0.1}),
                record([0.5], side="jax", precision=precision, more=lambda step: {"lr": 0.1 * (1 + EARLY_LIMIT / 2)}),
            )
            assert bool(compare(*pair).hints) is parted

    def test_a_run_that_broke_off_is_told(self) -> None:
        whole, broken = both(ONES, ONES)
        hints = compare(whole, replace(broken, finished=False)).hints
        assert len(hints) == 1
        assert f"jax.jsonl breaks off after step {len(ONES) - 1}" in hints[0]

    def test_no_hints_where_nothing_parted(self) -> None:
        pair = record([1.0], more=lambda step: {"lr": 0.1}), record([1.0], side="jax", more=lambda step: {"lr": 0.2})
        assert compare(*pair).hints == []

    @pytest.mark.parametrize("precision", ["float64", "float32"])
    def test_it_is_json_to_others_than_python_too(self, precision: str) -> None:
        control = record(changed(ONES, LATER, math.inf), precision=precision, side="control", evaluations={1: 1.0})
        for b, controls in ((changed(ONES, 2, math.nan), []), (without(ONES, 2), []), (ONES, [control])):
            verdict = compare(*both(ONES, b, precision=precision, evaluations={1: 1.0}), controls=controls)
            read = json.loads(json.dumps(verdict.as_dict(), allow_nan=False))
            assert read["status"] == str(verdict.status)
            assert read["steps"]["steps"] == verdict.steps.steps
            assert [finding["step"] for finding in read["findings"]] == [finding.step for finding in verdict.findings]

    def test_files_do_as_well_as_records(self, tmp_path: Path) -> None:
        paths = [tmp_path / name for name in ("torch.jsonl", "jax.jsonl")]
        for path in paths:
            with Recorder(path, precision="float64") as recorder:
                recorder(0, loss=0.1 + 0.2)
        for pair in (paths, list(map(str, paths))):
            verdict = compare(*pair)
            assert (verdict.status, verdict.precision) == (Status.AGREE, "float64")
            assert "torch and jax are the same over 1 steps" in verdict.sentence
        with pytest.raises(BrokenRecord):
            compare(paths[0], tmp_path / "none.jsonl")


class TestLimits:
    def test_relative_differences(self) -> None:
        nan, inf = math.nan, math.inf
        a = [1.0, 2.0, 1e-9, 4.0, 1.0, inf, 1.0, 1.0]
        b = [1.0, 1.0, 3e-9, 2.0, nan, inf, -inf, 0.5]
        assert relative_differences(a, b) == [0.0, 0.5, pytest.approx(2e-9 / 2e-6), 0.5, inf, inf, inf, 0.5]

    def test_control_limits(self) -> None:
        limits = control_limits([[0.0, 0.2, 0.1, 0.1], [0.1, 0.0, 0.0, 0.3]], 0.5)
        assert limits == [max(0.5, CONTROL_FACTOR * furthest) for furthest in (0.1, 0.2, 0.2, 0.3)]


class TestProofBesideControls:
    """In float64, too, a training may enlarge rounding until nothing is left of it: the original strays from itself."""

    GROWING: ClassVar[list[float]] = [1.0 + 1e-14 * 10.0**step for step in range(LONG)]

    def judged(self, jax: list[float], control: list[float]) -> Verdict:
        a, b = both([1.0] * LONG, jax)
        return compare(a, b, controls=[record(control)])

    def test_who_strays_as_the_original_does_from_itself_is_not_judged_there(self) -> None:
        alone = compare(*both([1.0] * LONG, self.GROWING))
        assert alone.status is Status.DIFFER and parts_late(alone)
        verdict = self.judged(self.GROWING, self.GROWING)
        assert verdict.status is Status.CANNOT_JUDGE
        assert "agree in float64 up to step 4 and cannot be judged beyond it" in verdict.sentence
        assert "torch strays from itself as well" in verdict.sentence

    def test_where_evaluations_alone_are_not_judged_theirs_is_said(self) -> None:
        numbers = dict(enumerate(self.GROWING))
        a, b = both([1.0] * LONG, [1.0] * LONG, evaluations=[1.0] * LONG)
        b = replace(b, evaluations=lines(numbers))
        control = record([1.0] * LONG, evaluations=numbers)
        verdict = compare(a, b, controls=[control])
        assert verdict.status is Status.CANNOT_JUDGE
        strayed = max(abs(loss - 1.0) / max(loss, 1.0) for loss in self.GROWING)
        assert f"strays from itself as well in evaluation, by up to {strayed:.2e}" in verdict.sentence

    def test_who_strays_earlier_differs(self) -> None:
        further = [1.0 + 2 * CONTROL_FACTOR * (loss - 1.0) for loss in self.GROWING]
        verdict = self.judged(further, self.GROWING)
        assert verdict.status is Status.DIFFER and verdict.findings[0].difference > PROOF_LIMIT

    def test_what_differs_before_the_control_does_is_seen(self) -> None:
        parted = [loss + (1e-8 if step >= EARLY_STEPS else 0.0) for step, loss in enumerate(self.GROWING)]
        assert_differs(self.judged(parted, self.GROWING), EARLY_STEPS)

    def test_early_steps_have_the_proofs_limit_whatever_the_control_does(self) -> None:
        wild = [1.0 + 1e-3] * LONG
        parted = [1.0 + 1e-8, *[1.0] * (LONG - 1)]
        assert_differs(self.judged(parted, wild), 0)
        assert not parts_late(compare(*both([1.0] * LONG, parted)))
