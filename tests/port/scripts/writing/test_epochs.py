"""The loop over the epochs, where the data is made or in a function or a method that is called from there."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from port.errors import UsageError
from port.scripts.writing.epochs import epochs_of, passed_arguments
from port.scripts.writing.taken_statements import names_set

METHOD = dedent("""
    class Trainer:
        def __init__(self, model, epochs, every=2):
            self.model = model
            self.epochs, self.every = epochs, every

        def fit(self, loader, first=0):
            for epoch in range(first, self.epochs * self.every):
                self.one(epoch, loader)

        def one(self, epoch, loader):
            for batch in loader:
                step(batch)

    def main(total, size):
        loader = DataLoader(data, batch_size=size)
        trainer = Trainer(net, epochs=total)
        trainer.fit(loader, first=1)

    main(args.total, args.size)
""")


def found(source: str, batches: str, inside: str, file: str = "train.py") -> tuple[ast.Module, list[ast.stmt], Any]:
    tree = ast.parse(source)
    line = 1 + next(n for n, row in enumerate(source.splitlines()) if batches in row)
    scope = next(one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "main").body
    begun = {"file": file, "line": line, "function": inside, "text": ""}
    return tree, scope, epochs_of(tree, scope, begun, begun)


def test_a_method_goes_through_them() -> None:
    tree, scope, epochs = found(METHOD, "for batch in loader", "Trainer.one")
    assert ast.unparse(epochs.iterated) == "range(1, total * 2)"
    assert ast.unparse(epochs.statement) == "trainer.fit(loader, first=1)" and epochs.loop.target.id == "epoch"
    assert [ast.unparse(one) for one in passed_arguments(tree, scope, "train.py")] == [
        "total = args.total",
        "size = args.size",
    ]


def test_what_is_given_is_the_scripts_own_node() -> None:
    """So that an option that is used there alone may have another value."""
    tree, scope, _ = found(METHOD, "for batch in loader", "Trainer.one")
    nodes = {id(node) for node in ast.walk(tree)}
    given = passed_arguments(tree, scope, "train.py")
    assert given and all(isinstance(one, ast.Assign) and id(one.value) in nodes for one in given)


def test_a_loop_where_the_data_is_made() -> None:
    source = "def main():\n    for epoch in range(3):\n        for batch in loader:\n            step(batch)\n"
    _, scope, epochs = found(source, "for batch", "main")
    assert epochs.statement is epochs.loop is scope[0] and ast.unparse(epochs.iterated) == "range(3)"


def test_a_function_is_not_a_method_of_its_name(tmp_path: Path) -> None:
    """``model.train()`` switches the model; ``train(loader, 4)`` goes through the epochs."""
    source = dedent("""
        def train(loader, epochs):
            for epoch in range(epochs):
                for batch in loader:
                    step(batch)

        def main():
            loader = DataLoader(data)
            model = Net()
            model.train()
            train(loader, 4)
    """)
    _, scope, epochs = found(source, "for batch", "train")
    assert epochs.statement is scope[3] and ast.unparse(epochs.iterated) == "range(4)"


def test_a_method_is_that_of_its_own_class(tmp_path: Path) -> None:
    source = METHOD.replace("def fit(", "def train(").replace("trainer.fit(", "trainer.train(")
    source = source.replace("    trainer = ", "    net = Net()\n    net.train()\n    trainer = ")
    (tmp_path / "train.py").write_text(source)
    _, _, epochs = found(source, "for batch in loader", "Trainer.one", str(tmp_path / "train.py"))
    assert ast.unparse(epochs.statement) == "trainer.train(loader, first=1)"
    assert ast.unparse(epochs.iterated) == "range(1, total * 2)"


SAID = {
    "by its place alone": ("(loader, n, /)", "(loader, 4)", "n", "4"),
    "by name alone, its default": ("(loader, *, n=5)", "(loader)", "n", "5"),
    "by name alone": ("(loader, *, n=5)", "(loader, n=opt.n)", "n", "opt.n"),
    "all options": ("(loader, n)", "(loader, **vars(opt))", "n", "opt.n"),
    "no option": ("(loader, m=2)", "(loader, **vars(opt))", "m", "2"),
    "a dict": ("(loader, n)", "(loader, **config)", "n", "config['n']"),
    "a dict that is written out": ("(loader, n)", "(loader, **{'n': 3})", "n", "3"),
    "a list, behind": ("(loader, n, m)", "(loader, 3, *rest)", "n", "3"),
    "a variable of its own": ("(loader, n)", "(loader, 3)", "n; twice = 2 * n", "2 * 3"),
    "a parameter that is set anew": ("(loader, n)", "(loader, 3)", "n; n = n + 1", "3 + 1"),
    "a name of a comprehension": ("(loader, n)", "(loader, 3)", "len([n for n in (1, 2)])", "len([n for n in (1, 2)])"),
    "known everywhere": ("(loader)", "(loader)", "EPOCHS", "EPOCHS"),
}
NOT_SAID = {
    "all options, or a default": ("(loader, x=3)", "(loader, **settings)", "x"),
    "a list": ("(loader, n)", "(loader, *rest)", "n"),
    "on a condition": ("(loader, n)", "(loader, 3)", "n; n = 4 if loader else n; if loader: n = 3"),
    "a name of the caller's": ("(loader)", "(loader)", "SIZE"),
    "a default of a name of the caller's": ("(loader, n=SIZE)", "(loader)", "n"),
}
FUNCTION = """\
parser.add_argument("--n", type=int)
SIZE = EPOCHS = 3
def fit{parameters}:
{lines}    for epoch in range({said}):
        for batch in loader:
            step(batch)

def main(opt):
    SIZE = 4
    loader = DataLoader(data)
    fit{call}
"""


def in_a_function(parameters: str, call: str, said: str) -> str:
    """What main's loop goes through; behind a semicolon: the lines before the loop, which set what it is."""
    said, *lines = said.split("; ")
    said = "twice" if lines and lines[0].startswith("twice") else said
    rows = "".join(f"    {line}\n" for line in lines)
    source = FUNCTION.format(parameters=parameters, call=call, said=said, lines=rows)
    return ast.unparse(found(source, "for batch", "fit")[2].iterated)


@pytest.mark.parametrize("case", SAID)
def test_what_a_function_is_given(case: str) -> None:
    parameters, call, said, expected = SAID[case]
    assert in_a_function(parameters, call, said) == f"range({expected})"


@pytest.mark.parametrize("case", NOT_SAID)
def test_what_is_not_seen(case: str) -> None:
    with pytest.raises(UsageError, match="is not visible where it is called"):
        in_a_function(*NOT_SAID[case])


ATTRIBUTES = {
    "set again": (
        "self.epochs, self.every = epochs, every",
        "self.epochs = 9; self.epochs = epochs; self.every = 2",
        True,
    ),
    "computed": ("self.epochs, self.every = epochs, every", "self.epochs = int(epochs); self.every = every", True),
    "on a condition": ("self.model = model", "self.model = model\n        if model: self.every = 3", True),
    "on a condition, behind": ("epochs, every\n", "epochs, every\n        if model: self.every = 3\n", False),
    "by another method": ("def one(", "def other(self):\n        self.epochs += 1\n\n    def one(", False),
    "from outside": ("    trainer.fit(", "    trainer.epochs = 3\n    trainer.fit(", False),
    "another's": ("    trainer.fit(", "    net = Net()\n    net.epochs = 3\n    trainer.fit(", True),
}


@pytest.mark.parametrize("case", ATTRIBUTES)
def test_what_an_object_holds(case: str, tmp_path: Path) -> None:
    """The assignment that holds, if it always does."""
    before, after, is_seen = ATTRIBUTES[case]
    assert before in METHOD
    source = METHOD.replace(before, after)
    (tmp_path / "train.py").write_text(source)
    try:
        _, _, epochs = found(source, "for batch in loader", "Trainer.one", str(tmp_path / "train.py"))
    except UsageError as error:
        assert not is_seen and "is not visible where it is called" in str(error)
        return
    said = "range(1, int(total) * 2)" if case == "computed" else "range(1, total * 2)"
    assert is_seen and ast.unparse(epochs.iterated) == said


def test_parameters_that_depend_on_each_other() -> None:
    """Each is what the call gives, before any is set."""
    source = "def main(size, total, more):\n    pass\n\nmain(total, size, size + 1)\n"
    tree = ast.parse(source)
    (function, _) = tree.body
    assert isinstance(function, ast.FunctionDef)
    given = passed_arguments(tree, function.body, "train.py")
    names: dict[str, int] = {"size": 1, "total": 2}
    exec("\n".join(map(ast.unparse, given)), names)
    assert (names["size"], names["total"], names["more"]) == (2, 1, 2)


def test_a_function_further_down_is_compiled() -> None:
    """Python compiles no node that ends before it begins."""
    tree = ast.parse("import torch\n\n\ndef main(size):\n    pass\n\n\nmain(4)\n")
    function = tree.body[1]
    assert isinstance(function, ast.FunctionDef)
    (one,) = passed_arguments(tree, function.body, "train.py")
    assert names_set(one) == ["size"]


def test_a_packages_loop_is_named() -> None:
    """The line at which the batches come, as the script has it, is the one that hands the loop over."""
    source = "def main():\n    loader = DataLoader(data)\n    trainer.fit(model, loader)\n"
    with pytest.raises(UsageError, match=r"line 3, `trainer\.fit\(model, loader\)`, runs .* outside the script"):
        found(source, "trainer.fit", "main")


REFUSED = {
    "not known how often": ("epochs=total", "*others", "how often fit goes through the data, `self.epochs`"),
    "until something happens": (
        "for epoch in range(first, self.epochs * self.every):",
        "while True:",
        "is not where the loader is made",
    ),
    "not called": ("trainer.fit(loader, first=1)", "start(trainer)", "is not where the loader is made"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_plain_is_refused(case: str) -> None:
    before, after, words = REFUSED[case]
    assert before in METHOD
    with pytest.raises(UsageError, match=words):
        found(METHOD.replace(before, after), "for batch in loader", "Trainer.one")
