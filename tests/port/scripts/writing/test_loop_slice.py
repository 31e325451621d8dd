"""Slices of loops: what is yielded in the place of the work, and the script's statements that lead to it."""

from __future__ import annotations

import ast
from itertools import islice
from typing import Any

import pytest

from port.errors import UsageError
from port.scripts.writing.loop_slice import LoopSlice, Yielded, slice_of, statement_at
from port.scripts.writing.rate_by_hand import rate_by_hand

SCRIPT = """\
X, Y = get_batch()
iter_num, best = 0, 1e9
while True:
    lr = get_lr(iter_num)
    for group in optimizer.param_groups:
        group["lr"] = lr
    if iter_num % 2 == 0:
        losses = estimate_loss()
        if losses < best:
            best = losses
    for micro in range(2):
        with autocast():
            logits, loss = model(X, Y)
        # the next one
        X, Y = get_batch()
        loss.backward()
    optimizer.step()
    iter_num += 1
    if iter_num > 3:
        break
"""


def sliced(text: str, points: dict[str, str], others: dict[ast.stmt, ast.stmt | None] | None = None) -> LoopSlice:
    """The slice with these yields in the place of the statements that begin so."""
    tree, rows = ast.parse(text), text.splitlines()
    return slice_of(*parts(tree), found_points(tree, rows, points), rows, others)


def parts(tree: ast.Module) -> tuple[list[ast.stmt], list[ast.stmt]]:
    place = next(n for n, one in enumerate(tree.body) if isinstance(one, ast.For | ast.While))
    return tree.body[:place], tree.body[place:]


def found_points(tree: ast.Module, rows: list[str], points: dict[str, str]) -> dict[ast.stmt, Yielded]:
    found = {}
    for begin, given in points.items():
        line = next(number for number, row in enumerate(rows, 1) if row.strip().startswith(begin))
        parsed = ast.parse(given, mode="eval").body
        found[statement_at(tree.body, line)] = Yielded.of(parsed.elts if isinstance(parsed, ast.Tuple) else [parsed])
    return found


def test_batches_that_are_made_ahead() -> None:
    made = sliced(SCRIPT, {"logits, loss": "X, Y"})
    assert made.function("training").splitlines() == [
        "def training():",
        "    X, Y = get_batch()",
        "    iter_num, best = 0, 1e9",
        "    while True:",
        "        for micro in range(2):",
        "            yield X, Y",
        "            # the next one",
        "            X, Y = get_batch()",
        "        iter_num += 1",
        "        if iter_num > 3:",
        "            break",
    ]
    drawn = iter(range(100))
    space: dict[str, Any] = {"get_batch": lambda: (next(drawn), 0)}
    exec(made.function("training"), space)
    assert [x for x, _ in space["training"]()] == list(range(8))
    assert made.needed == {"get_batch", "range"}


def test_a_plan_of_evaluations_and_updates() -> None:
    tree, rows = ast.parse(SCRIPT), SCRIPT.splitlines()
    before, block = parts(tree)
    rate = rate_by_hand(block[0], 0.1, [])  # type: ignore[arg-type]
    points = found_points(tree, rows, {"losses =": "'evaluation', None", "optimizer.step": "'update', lr"})
    made = slice_of(before, block, points, rows, rate.others)
    space: dict[str, Any] = {"get_lr": lambda step: step / 10}
    exec(made.function("plan"), space)
    expected = [("evaluation", None), ("update", 0.0), ("update", 0.1), ("evaluation", None), ("update", 0.2)]
    assert list(islice(space["plan"](), 5)) == expected and len(list(space["plan"]())) == 6
    assert "best = losses" not in made.function("plan") and made.needed == {"get_lr"}


def test_a_loop_whose_course_depends_on_what_is_found_is_refused() -> None:
    text = SCRIPT.replace("    if iter_num > 3:", "    if losses < 0.1:")
    with pytest.raises(UsageError, match="line 8 sets losses, on which the loop's control flow depends"):
        sliced(text, {"losses =": "'evaluation', None", "optimizer.step": "'update', None"})


def test_a_name_without_a_first_value_is_refused() -> None:
    with pytest.raises(UsageError, match="iter_num has no value before the loop"):
        sliced(SCRIPT.replace("iter_num, best = 0, 1e9", "best = 1e9"), {"logits, loss": "X, Y"})


def test_what_is_told_to_a_person_is_left_out_and_what_is_changed_is_kept() -> None:
    text = (
        "order = list(range(6))\nfor step in range(3):\n    random.shuffle(order)\n    bar.set_postfix(loss=loss)\n"
        "    log(order, F.mse_loss(model(order), order))\n    loss = model(order)\n    print(loss)\n"
    )
    made = sliced(text, {"loss = model": "order"}).function("training")
    assert "random.shuffle(order)" in made and "log" not in made and "print" not in made and "bar" not in made


@pytest.mark.parametrize(
    ("iterated", "said"), [("tqdm(range(n))", "range(n)"), ("trange(n)", "range(n)"), ("zip(a, b)", "zip(a, b)")]
)
def test_a_bar_is_not_shown_once_more(iterated: str, said: str) -> None:
    made = sliced(f"for step in {iterated}:\n    model(step)\n", {"model": "step"})
    assert made.function("training").splitlines()[1] == f"    for step in {said}:" and "tqdm" not in made.needed


def test_an_expression_over_batches_is_refused() -> None:
    with pytest.raises(UsageError, match="loops over the batches within an expression"):
        statement_at(ast.parse("losses = [model(one) for one in batches]").body, 1)
