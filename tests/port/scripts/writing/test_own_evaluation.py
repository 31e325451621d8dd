"""An evaluation stays the script's own lines; what torch computes there is measured, and what is idle left out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from port.errors import UsageError
from port.scripts.writing.evaluated_numbers import TakenNumber
from port.scripts.writing.own_evaluation import OwnEvaluation, own_evaluation

FUNCTION = """
import math
import torch
LIMIT = 3

def evaluate(model, loader, device, name="test"):
    '''The loss.'''
    model.eval()
    total, right, seen = 0.0, 0, 0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            logits = model(images)
            loss = criterion(logits, labels)
            total += loss.item() * labels.size(0)
            right += (logits.argmax(1) == labels).sum().item()
            seen += labels.size(0)
    model.train()
    print(f"{name}: {total / seen:.4f}, perplexity {math.exp(min(total / seen, LIMIT))}")
    return total / seen, right / seen

for epoch in range(args.epochs):
    train(model)
    test_loss, test_accuracy = evaluate(model, test_loader, device)
"""
AMONG = """
for epoch in range(args.epochs):
    total = 0.0
    for images, labels in train_loader:
        total += update(images, labels)
    model.eval()
    total = 0.0
    for batch in test_loader:
        with torch.no_grad():
            total += criterion(model(batch[0]), batch[1]).item()
    total /= len(test_loader)
    best = min(best, total)
"""


def read(folder: Path, source: str, line: str, *taken: str, function: str = "<module>") -> OwnEvaluation:
    """Of an evaluation whose loop is the line that begins so; its numbers leave torch in these expressions."""
    file = folder / "train.py"
    file.write_text(source)
    rows = source.splitlines()

    def at(text: str) -> dict[str, object]:
        number = next(n for n, row in enumerate(rows, start=1) if text in row)
        return {"file": str(file), "line": number, "function": function, "text": text}

    numbers = [TakenNumber(at(text), 0.5, call) for call, text in enumerate(taken)]
    models = {"model", "criterion"}
    return own_evaluation(ast.parse(source), at(line), numbers, "test_loader", "args", "epoch", models)


def written(evaluation: OwnEvaluation) -> str:
    return "\n".join(ast.unparse(one) for one in evaluation.statements)


def test_a_function_keeps_its_sums_and_what_it_prints(tmp_path: Path) -> None:
    taken = ["loss.item()", "(logits.argmax(1) == labels).sum().item()"]
    found = read(tmp_path, FUNCTION, "for images, labels in loader", *taken, function="evaluate")
    assert (
        written(found)
        == """\
name = 'test'
total, right, seen = (0.0, 0, 0)
for images, labels in loader:
    numbers = measure((images, labels))
    total += numbers[0].item() * labels.size(0)
    right += numbers[1].item()
    seen += labels.size(0)
print(f'{name}: {total / seen:.4f}, perplexity {math.exp(min(total / seen, LIMIT))}')
return (total / seen, right / seen)"""
    )
    assert [ast.unparse(one) for one in found.imports] == ["import math", "LIMIT = 3"]
    assert (found.loader, found.shown, found.names) == ("loader", "test_loss, test_accuracy", ("total", "right"))


def test_a_loss_that_nobody_keeps_is_left_out(tmp_path: Path) -> None:
    source = FUNCTION.replace(
        "loss = criterion(logits, labels)\n            total += loss.item()",
        "criterion(logits, labels)\n            total += 1",
    )
    taken = "(logits.argmax(1) == labels).sum().item()"
    found = read(tmp_path, source, "for images, labels in loader", taken, function="evaluate")
    assert "criterion" not in written(found) and "right += numbers[0].item()" in written(found)


def test_one_that_stands_among_others_gives_its_sums(tmp_path: Path) -> None:
    found = read(tmp_path, AMONG, "for batch in test_loader", "criterion(model(batch[0]), batch[1]).item()")
    assert (
        written(found)
        == """\
total = 0.0
for batch in test_loader:
    numbers = measure(batch)
    total += numbers[0].item()
total /= len(test_loader)
return total"""
    )
    assert found.shown == "total"


ADDED = """
import torch

def run(model, loader, device, optimizer=None):
    training = optimizer is not None
    model.train(training)
    total = torch.zeros((), device=device)
    right, seen = 0, 0
    for images, labels in loader:
        loss = criterion(model(images), labels)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss * len(images)
        right += (logits.argmax(1) == labels).sum()
        seen += len(images)
    return total.cpu().item() / seen, 100.0 * right.double() / seen if not training else None

for epoch in range(args.epochs):
    run(model, train_loader, device, optimizer)
    test_loss, test_accuracy = run(model, test_loader, device)
"""


def test_sums_on_the_device_stay_there_and_the_function_is_what_its_call_makes_it(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(ADDED)
    rows = ADDED.splitlines()

    def at(text: str, said: str) -> dict[str, object]:
        number = next(n for n, row in enumerate(rows, start=1) if text in row)
        return {"file": str(file), "line": number, "function": "run", "text": said}

    added = {"total += ": "loss * len(images)", "right += ": "(logits.argmax(1) == labels).sum()"}
    numbers = [TakenNumber(at(line, text), 0.5, call, is_added=True) for call, (line, text) in enumerate(added.items())]
    found = own_evaluation(ast.parse(ADDED), at("for images", ""), numbers, "test_loader", "args", "epoch")
    assert (
        written(found)
        == """\
total = 0.0
right, seen = (0, 0)
for images, labels in loader:
    numbers = measure((images, labels))
    total += numbers[0]
    right += numbers[1]
    seen += len(images)
return (total.item() / seen, 100.0 * right / seen)"""
    )
    assert (found.shown, found.names) == ("test_loss, test_accuracy", ("total", "right"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("seen += labels.size(0)", "seen += logits.size(0)", "reads .*model"),
        ("math.exp", "scipy.exp", "reads scipy"),
        ("    test_loss,", "    evaluate(model, test_loader, device)\n    test_loss,", "called at 2 places"),
        ("in loader:", "in batches_of(loader):", "does not loop over the evaluation's batches by a loader's name"),
        (
            "right += (log",
            "for _ in range(2): right += (logits.argmax(1) == labels).sum().item(); right += (log",
            "not",
        ),
    ],
)
def test_what_is_not_plain_is_refused(old: str, new: str, words: str, tmp_path: Path) -> None:
    taken = ["loss.item()", "(logits.argmax(1) == labels).sum().item()"]
    source = FUNCTION.replace(old, new)
    assert source != FUNCTION
    line = "for images, labels in "
    with pytest.raises(UsageError, match=words):
        read(tmp_path, source, line, *taken, function="evaluate")


def test_a_number_that_leaves_torch_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not once for each batch"):
        read(tmp_path, FUNCTION, "for images, labels in loader", "math.exp", function="evaluate")
