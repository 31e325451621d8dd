"""What a script prints while it trains stays its own lines, with the written loop's names; what reads more is left."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from port.scripts.writing.own_telling import OwnTelling, UpdateLines, WrittenEvaluation, own_telling
from port.scripts.writing.reported_statements import WrittenNames

AMONG = """
for epoch in range(args.epochs):
    model.train()
    total, seen = 0.0, 0
    for i, (images, labels) in enumerate(loader):
        images = images.to(device)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * images.size(0)
        seen += len(labels)
        if i % args.every == 0:
            print(f"{epoch}/{i} of {len(loader)}: {loss.item():.4f}")
            if args.dry:
                break
    val = evaluate(model, test_loader)
    print(f"train {total / seen:.4f} val {val:.4f}")
    print(optimizer.param_groups[0]["lr"])
"""
CALLED = """
def train(data, number):
    running = 0.0
    for images, labels in data:
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        running += loss.item()
    print("epoch", number)
    return running / len(data)

for epoch in range(9):
    mean = train(loader, epoch)
    print(f"mean {mean}")
    evaluate(model, test_loader)
"""
NAMES = WrittenNames(
    "loss",
    {"epoch": "epoch", "args": "args", "loader": "training", "i": "batch_number"},
    {"images": "batch_arrays[0]", "labels": "batch_arrays[1]"},
    {"state", "seen"},
)


def read(folder: Path, source: str, names: tuple[str, ...] = ("val",)) -> OwnTelling | None:
    file = folder / "train.py"
    file.write_text(source)
    tree = ast.parse(source)
    loops = [one for one in ast.walk(tree) if isinstance(one, ast.For)]
    epochs = next(one for one in loops if "range" in ast.unparse(one.iter))
    batches = next(one for one in loops if one is not epochs)
    line = next(number for number, row in enumerate(source.splitlines(), 1) if "evaluate(" in row)
    where = {"file": str(file), "line": line, "function": "evaluate", "text": ""}
    update = UpdateLines(lines_with("criterion(", source, file), lines_with(".step()", source, file))
    return own_telling(tree, epochs.body, batches, update, NAMES, WrittenEvaluation(where, (), names), str(file))


def lines_with(words: str, source: str, file: Path) -> list[dict[str, Any]]:
    rows = [number for number, row in enumerate(source.splitlines(), 1) if words in row]
    return [{"file": str(file), "line": number, "function": "<module>", "text": ""} for number in rows]


def test_sums_stay_on_the_device_and_prints_have_the_written_names(tmp_path: Path) -> None:
    found = read(tmp_path, AMONG)
    assert found is not None
    assert found.begun == ("total, seen_so_far = (0.0, 0)",)
    assert found.each == (
        "total += loss * len(batch_arrays[0])",
        "seen_so_far += len(batch_arrays[1])",
        "if batch_number % args.every == 0:\n"
        "    print(f'{epoch}/{batch_number} of {len(training)}: {loss.item():.4f}')\n"
        "    if args.dry:\n"
        "        break",
    )
    assert (found.before, found.evaluated) == ((), "val")
    assert found.after == ("print(f'train {total / seen_so_far:.4f} val {val:.4f}')",)


def test_a_function_tells_and_gives_its_caller_what_it_tells(tmp_path: Path) -> None:
    found = read(tmp_path, CALLED, ())
    assert found is not None
    assert (found.begun, found.each) == (("running = 0.0",), ("running += loss",))
    assert found.before == ("print('epoch', epoch)", "mean = running / len(training)", "print(f'mean {mean}')")
    assert (found.after, found.evaluated) == ((), None)


LEFT = """
for epoch in range(9):
    for i, (images, labels) in enumerate(loader):
        {before}
        loss = criterion(model(images), labels)
        {within}
        optimizer.step()
        {behind}
    evaluate(model, test_loader)
"""


def left(folder: Path, before: str = "pass", within: str = "pass", behind: str = "pass") -> OwnTelling | None:
    return read(folder, LEFT.format(before=before, within=within, behind=behind), ())


def test_the_loop_is_left_where_the_script_leaves_it(tmp_path: Path) -> None:
    found = left(tmp_path, before="if i >= args.most: break", behind="if loss.item() < args.enough: break")
    assert found is not None and not found.tells
    assert found.first == ("if batch_number >= args.most:\n    break",)
    assert found.each == ("if loss.item() < args.enough:\n    break",)
    assert found.lines == {4, 8}
    assert found.attributes == {(4, 16), (8, 11), (8, 25)}


def test_a_batch_is_left_out_where_the_script_leaves_it_out(tmp_path: Path) -> None:
    found = left(tmp_path, before="if len(images) < 8: continue")
    assert found is not None
    assert found.first == ("if len(batch_arrays[0]) < 8:\n    continue",)


@pytest.mark.parametrize(
    "where",
    [
        {"within": "if i > 3: break"},
        {"before": "if images.mean() > 3: break"},
        {"behind": "if unknown: break"},
        {"behind": "if i > 3: continue"},
        {"behind": "if i > 3: break\n        else: print(i)"},
        {"behind": "if i > 3: break\n        scheduler.step()"},
        {"behind": "if i > 3: break\n    else:\n        print(i)"},
    ],
    ids=str,
)
def test_a_loop_that_is_left_otherwise_is_said(where: dict[str, str], tmp_path: Path) -> None:
    assert left(tmp_path, **where) is None


def test_the_loop_is_left_though_its_print_is_not_taken(tmp_path: Path) -> None:
    found = left(tmp_path, behind="if i > 3:\n            print(optimizer)\n            break")
    assert found is not None and not found.tells
    assert found.each == ("if batch_number > 3:\n    break",)
    assert found.lines == {10}


@pytest.mark.parametrize("read_too", ["optimizer.step()", "images.mean()", "time.time()", "unknown"])
def test_what_reads_something_else_is_left(read_too: str, tmp_path: Path) -> None:
    source = CALLED.replace("mean {mean}", f"mean {{mean}} {{{read_too}}}").replace('    print("epoch", number)\n', "")
    assert read(tmp_path, source, ()) is None


def test_a_sum_that_nobody_prints_is_left(tmp_path: Path) -> None:
    found = read(tmp_path, CALLED.replace('    print(f"mean {mean}")\n', ""), ())
    assert found is not None
    assert (found.begun, found.each, found.before) == ((), (), ("print('epoch', epoch)",))
