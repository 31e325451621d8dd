"""A function of the script's own that parses its options, in the place of its call."""

from __future__ import annotations

import ast

import pytest

from port.scripts.writing.parsed_options import with_options_parsed


def inlined(source: str) -> str:
    return ast.unparse(with_options_parsed(ast.parse(source)))


PARSES = """
def get_args():
    '''Of the command line.'''
    parser = argparse.ArgumentParser()
    parser.add_argument('--lr')
    {last}
"""


@pytest.mark.parametrize(
    ("last", "call", "ends"),
    [
        ("return parser.parse_args()", "args = get_args()", "args = parser.parse_args()"),
        (
            "args = parser.parse_args(); args.half = args.lr / 2; return args",
            "args = get_args()",
            "args.half = args.lr / 2",
        ),
        ("found = parser.parse_args(); return found", "args = get_args()", "args = found"),
    ],
)
def test_its_statements_stand_where_it_is_called(last: str, call: str, ends: str) -> None:
    before = inlined(PARSES.format(last=last))
    made = inlined(PARSES.format(last=last) + call)
    assert made.startswith(before) and made.splitlines()[-1] == ends and "get_args()\n" not in made[len(before) :]


@pytest.mark.parametrize("call", ["args = get_args(sys.argv)", "args = vars(get_args())", "args = other()"])
def test_another_call_stays(call: str) -> None:
    source = PARSES.format(last="return parser.parse_args()") + call
    assert inlined(source) == ast.unparse(ast.parse(source))


def test_a_function_that_gives_something_else_stays() -> None:
    source = PARSES.format(last="args = parser.parse_args(); return args.lr") + "lr = get_args()"
    assert inlined(source) == ast.unparse(ast.parse(source))
