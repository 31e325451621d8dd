"""In which epochs a script evaluates: a condition on the epoch and the options is taken over, another is not."""

from __future__ import annotations

import ast

import pytest

from port.scripts.writing.evaluated_when import evaluated_when, fixed_names

LOOP = """\
for number in range(9):
    train()
    {around}
        evaluate()
"""


@pytest.mark.parametrize(
    ("around", "said"),
    [
        ("with torch.no_grad():", ""),
        ("if number % opt.every == 0:", "epoch % args.every == 0"),
        ("if number == 3 or number > int(opt.late):", "epoch == 3 or epoch > int(args.late)"),
        ("if best < 3:", None),
        ("for batch in loader:\n        train()", None),
        ("with torch.no_grad():\n      if number % 5 == 0:", "epoch % 5 == 0"),
        ("if number % 5:\n        continue\n    if True:", None),
        ("try:\n        number / 0\n    except ZeroDivisionError:\n        continue\n    if True:", None),
        ("match number:\n        case 3:\n            continue\n    if True:", None),
        ("for part in parts:\n        break\n    if number:", "epoch"),
        ("for part in parts:\n        break\n    else:\n        break\n    if number:", None),
        ("for part in parts:\n        return\n    if number:", None),
        ("while True:", None),
        ("for part in parts:\n      if part > number:", None),
        ("for part in parts:", ""),
    ],
)
def test_a_condition(around: str, said: str | None) -> None:
    (loop,) = ast.parse(LOOP.format(around=around)).body
    assert isinstance(loop, ast.For)
    training = {"file": "train.py", "line": 99, "function": "train"}
    found = evaluated_when(loop, training, {"file": "train.py", "line": 99, "function": "evaluate"}, "opt", "epoch")
    assert found == said


FIXED = {
    "rank == 0": "",
    "dist.get_rank() == 0": "",
    "rank == 0 and number % 2 == 0": None,  # of a part of a condition nothing is said
    "best == 0": None,
    "rank == model.rank": None,
}


@pytest.mark.parametrize("condition", FIXED)
def test_a_condition_that_is_the_same_in_all_epochs(condition: str) -> None:
    source = f"""\
import torch.distributed as dist
rank, best = dist.get_rank(), 0
for number in range(9):
    train()
    if {condition}:
        best = evaluate()
"""
    tree = ast.parse(source)
    loop = tree.body[-1]
    assert isinstance(loop, ast.For) and fixed_names(tree, loop) == {"dist", "rank"}
    training = {"file": "train.py", "line": 99, "function": "train"}
    evaluation = {"file": "train.py", "line": 99, "function": "evaluate"}
    found = evaluated_when(loop, training, evaluation, None, "epoch", fixed_names(tree, loop))
    assert found == FIXED[condition]


def test_of_two_counters_none_is_the_epoch() -> None:
    (loop,) = ast.parse("for i, number in enumerate(range(3)):\n    train()\n    if i == 1:\n        evaluate()\n").body
    assert isinstance(loop, ast.For)
    training = {"file": "train.py", "line": 99, "function": "train"}
    assert (
        evaluated_when(loop, training, {"file": "train.py", "line": 99, "function": "evaluate"}, None, "epoch") is None
    )


def test_the_other_branch_and_one_within_another() -> None:
    (loop,) = ast.parse(
        "for number in range(9):\n"
        "    train()\n"
        "    if number > 2:\n"
        "        if number % 2:\n"
        "            pass\n"
        "        else:\n"
        "            evaluate()\n"
    ).body
    assert isinstance(loop, ast.For)
    training = {"file": "train.py", "line": 99, "function": "train"}
    found = evaluated_when(loop, training, {"file": "train.py", "line": 99, "function": "evaluate"}, None, "epoch")
    assert found == "(epoch > 2) and (not epoch % 2)"
