"""A script's loop over its epochs, as its source has it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.writing.loop import EpochLoop, loop_of

GUARDED = """\
loader = DataLoader(data)
test_loader = DataLoader(other)

def train(epoch):
    for batch in loader:
        step(batch)

def test():
    model.eval()
    for batch in test_loader:
        look(batch)

if __name__ == "__main__":
    for epoch in range(1, 4):
        train(epoch)
        test()
"""
AT_END = GUARDED.replace("        test()\n", "    test()\n")
MADE = "loader = DataLoader(data)\ntest_loader = DataLoader(other)\n"
IN_A_FUNCTION = GUARDED.removeprefix(MADE).replace(
    'if __name__ == "__main__":\n', "def main():\n    " + MADE.replace("\ntest", "\n    test")
)
IN_A_FUNCTION += '\nif __name__ == "__main__":\n    main()\n'
WHILE = GUARDED.replace("for epoch in range(1, 4):", "while epoch := following():")


def read(source: str, folder: Path) -> EpochLoop:
    file = folder / "train.py"
    file.write_text(source)
    rows = source.splitlines()

    def where(text: str, function: str) -> Event:
        return {"file": str(file), "line": 1 + rows.index(text), "function": function, "text": text.strip()}

    def loader(name: str) -> Event:
        line = next(number for number, row in enumerate(rows, 1) if row.strip().startswith(f"{name} ="))
        return {"name": name, "constructed": {"where": {"file": str(file), "line": line, "function": "", "text": ""}}}

    seen = Observation(
        {},
        steps=[[{"event": "batch", "where": where("    for batch in loader:", "train")}]],
        evaluation=[{"event": "switch", "where": where("    model.eval()", "test")}],
    )
    return loop_of(seen, loader("loader"), loader("test_loader"))


@pytest.mark.parametrize("source", [GUARDED, AT_END, IN_A_FUNCTION])
def test_epochs_and_when_it_evaluates(source: str, tmp_path: Path) -> None:
    loop = read(source, tmp_path)
    assert ast.unparse(loop.epochs) == "range(1, 4)" and loop.epoch == "epoch"
    assert loop.loaders == {"training": "loader", "evaluation": "test_loader"}
    assert loop.evaluates_at_end == (source == AT_END)
    taken = [ast.unparse(one) for one in [*loop.taken.definitions, *loop.taken.body]]
    assert not any("main" in one or "train(" in one for one in taken), taken


def test_another_loop_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not loop over the epochs with"):
        read(WHILE, tmp_path)


@pytest.mark.parametrize(
    ("lines", "is_free"),
    [
        ("torch.save(model, args.out)", True),
        ("if args.out:\n            torch.save(model, 'x')", True),
        ("if args.out:\n            model.reset()", False),
    ],
)
def test_an_option_of_what_is_only_saved_is_free(lines: str, is_free: bool, tmp_path: Path) -> None:
    source = GUARDED.replace("        test()\n", f"        test()\n        {lines}\n")
    assert read(source, tmp_path).is_free("out") == is_free
