"""Sources are told apart by their first line that says something."""

from __future__ import annotations

import pytest

from port.translation.source_difference import first_difference

SOURCE = "import jax\n\n\nclass Net:\n    width = 4\n    depth = 2\n"


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (SOURCE, ""),
        (SOURCE.replace("4", "8"), "width = 4"),
        (SOURCE.replace("    depth = 2\n", ""), "depth = 2"),
        (SOURCE.replace("import jax", "import jax\nimport math").replace("depth = 2", "depth = 3"), "depth = 2"),
        (SOURCE.replace("import jax", "import jax\nfrom port.nn import Buffer"), "from port.nn import Buffer"),
    ],
)
def test_the_first_line_that_differs(other: str, line: str) -> None:
    assert first_difference(SOURCE, other) == line
