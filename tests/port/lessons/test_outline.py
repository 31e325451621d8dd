"""Definitions and titles of a source, and where each begins and ends."""

from __future__ import annotations

import pytest

from port.lessons.outline import DoesNotParse, flat, outline

SOURCE = '''"""Not a title:
# %% here
"""
# %% One

# Above.
@decorated(
    by=1,
)
def f(
    x,
):
    return x


class Net:
    # Of the first.
    def forward(self): ...
    async def other(self):
        def inner(): ...

    class Inner:
        def forward(self): ...

if True:
    def g(): ...
# %% Two  \n
def forward(): ...
'''


def test_names_lines_and_bodies():
    found = {
        name: (part.start + 1, part.line + 1, part.body + 1, part.stop)
        for name, part in flat(outline(SOURCE.split("\n")))
    }
    assert found == {
        "# %% One": (4, 4, 5, 4),
        "f": (6, 10, 13, 13),
        "Net": (16, 16, 17, 23),
        "Net.__call__": (17, 18, 19, 18),
        "Net.other": (19, 19, 20, 20),
        "Net.Inner": (22, 22, 23, 23),
        "Net.Inner.__call__": (23, 23, 24, 23),
        "g": (26, 26, 27, 26),
        "# %% Two": (27, 27, 28, 27),
        "forward": (29, 29, 30, 29),
    }


def test_a_title_inside_a_function_is_a_part_of_it():
    (part,) = outline(["def f():", "    x = 1", "# %% Inside", "    return x"])
    assert [name for name, _ in flat([part])] == ["f", "f.# %% Inside"]


@pytest.mark.parametrize("line", ["x = 1  # %% Beside code", "    # %% Further in", "# % One sign", "x = '# %% a'"])
def test_other_comments_are_no_titles(line):
    assert outline(["if x:", "    y = 1", line, "    y = 2" if line.startswith("  ") else ""]) == ()


def test_parts_do_not_overlap():
    first, second = outline(["def g():", "    return '''", "# no comment'''", "def f(): ..."])
    assert (first.stop, second.start) == (3, 3)


@pytest.mark.parametrize("text", ["def", "x = (", "  x\n y", "(" * 1000, "x = " + "-" * 100_000 + "1"])
def test_what_does_not_parse_is_refused_with_a_reason(text):
    with pytest.raises(DoesNotParse, match=r"\w"):
        outline(text.split("\n"))


def test_no_lines_have_no_parts():
    assert outline([]) == ()
