"""Generators of a script's own batches and rates, in its own lines; and loops of which none can be made."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from port.errors import UsageError
from port.scripts.writing.own_batches import flattened_script, loop_at, own_batches
from port.scripts.writing.own_rates import rates_source

SCRIPT = """\
def piece(source, i):
    return source[i : i + 2], source[i + 1 : i + 3]


def train(net, source, epoch):
    order = list(range(0, len(source) - 2, 2))
    total = 0
    for i in order:  # one after another
        # The words, and those behind them.
        data, targets = piece(source, i)
        total += model(data)


lr, best = 1.0, None
try:
    for epoch in range(3):
        train(model, words, epoch)
        loss = evaluate(model)
        if best is None or loss < best:
            print("better")
            best = loss
        else:
            lr /= 4
except KeyboardInterrupt:
    pass
"""


def read(text: str, line: int, *expressions: str) -> Any:
    tree = flattened_script(ast.parse(text))
    where = {"file": "train.py", "line": line, "text": ""}
    found = loop_at(tree, where)
    epochs = next(one for one in tree.body if isinstance(one, ast.For))
    own = own_batches(text.splitlines(), found, tree.body, epochs, where, expressions, "training")
    return tree, epochs, own


def test_a_pass_has_the_scripts_own_lines() -> None:
    _, _, own = read(SCRIPT, 11, "data", "targets")
    assert own.text.splitlines() == [
        "def training(source):",
        "    order = list(range(0, len(source) - 2, 2))",
        "    for i in order:",
        "        # The words, and those behind them.",
        "        data, targets = piece(source, i)",
        "        yield data, targets",
    ]
    assert own.call == "training(words)" and {"piece", "words"} <= own.needed and "total" in own.begun
    space: dict[str, Any] = {"piece": lambda source, i: (source[i : i + 2], source[i + 1 : i + 3])}
    exec(own.text, space)
    assert list(space["training"]("abcdef")) == [("ab", "bc"), ("cd", "de")]


def test_batches_that_need_the_epoch_are_refused() -> None:
    with pytest.raises(UsageError, match="its batches depend on epoch"):
        read(SCRIPT.replace("piece(source, i)", "piece(source, epoch)"), 11, "data", "targets")


def test_a_line_in_no_loop_is_refused() -> None:
    with pytest.raises(UsageError, match="is in no `for` of the script"):
        read(SCRIPT, 2, "source")


TRAINING = {"file": "train.py", "line": 9, "function": "train"}
EVALUATION = {"file": "train.py", "line": 1, "function": "evaluate"}
LR = ast.parse("lr", mode="eval").body


def rates_of(found: list[float], script: str = SCRIPT) -> list[float]:
    tree, epochs, _ = read(script, 11, "data")
    is_evaluated = "evaluate" in script
    told = EVALUATION if is_evaluated else None
    text, hears, _, _ = rates_source(tree.body, epochs, LR, TRAINING, told, {"model"})
    assert "print" not in text
    space: dict[str, Any] = {}
    exec("def rates():\n" + "\n".join(f"    {line}" for line in text.splitlines()), space)
    made = space["rates"]()
    return [next(made), *(made.send(one) if hears else next(made) for one in found)]


def test_a_rate_follows_from_what_the_evaluations_find() -> None:
    assert rates_of([3.0, 2.0, 2.5]) == [1.0, 1.0, 1.0, 0.25]
    assert rates_of([3.0, 4.0, 5.0]) == [1.0, 1.0, 0.25, 0.0625]


def test_a_rate_that_needs_the_model_is_refused() -> None:
    tree, epochs, _ = read(SCRIPT, 11, "data")
    with pytest.raises(UsageError, match="the rate depends on model"):
        rates_source(tree.body, epochs, LR, TRAINING, None, {"model"})


def test_a_rate_that_is_set_before_the_epoch_trains_is_that_epochs() -> None:
    begin = SCRIPT[: SCRIPT.index("lr, best = ")]
    script = f"{begin}for epoch in range(3):\n    lr = 0.5 ** epoch\n    train(model, words, epoch)\n"
    assert rates_of([0, 0, 0], script) == [1.0, 0.5, 0.25, 0.25]


def test_a_rate_that_changes_between_training_and_evaluation_is_the_next_epochs() -> None:
    begin = SCRIPT[: SCRIPT.index("lr, best = ")]
    script = (
        f"{begin}lr = 1.0\nfor epoch in range(3):\n    train(model, words, epoch)\n    lr = lr / 2\n"
        "    loss = evaluate(model)\n    if loss > 1:\n        lr = lr / 10\n"
    )
    assert rates_of([0.0, 2.0, 0.0], script) == pytest.approx([1.0, 0.5, 0.025, 0.0125])


def test_an_epoch_that_evaluates_before_it_trains_is_refused() -> None:
    script = SCRIPT.replace("        train(model, words, epoch)\n", "").replace(
        "            lr /= 4\n", "            lr /= 4\n        train(model, words, epoch)\n"
    )
    tree, epochs, _ = read(script, 11, "data")
    with pytest.raises(UsageError, match="an epoch evaluates before it trains"):
        rates_source(tree.body, epochs, LR, TRAINING, EVALUATION, {"model"})


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({**EVALUATION, "function": "train"}, "an epoch evaluates before it trains"),
        (None, "depends on what training gives"),
    ],
)
def test_a_rate_that_follows_from_the_line_that_trains_is_refused(told: Any, words: str) -> None:
    begin = SCRIPT[: SCRIPT.index("lr, best = ")]
    script = f"{begin}lr = 1.0\nfor epoch in range(3):\n    loss = train(model, words, epoch)\n    lr = lr / loss\n"
    tree, epochs, _ = read(script, 11, "data")
    with pytest.raises(UsageError, match=words):
        rates_source(tree.body, epochs, LR, TRAINING, told, {"model"})
