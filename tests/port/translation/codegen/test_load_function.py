"""The text of ``load``: with the file's arguments if the constructor takes any."""

from __future__ import annotations

import pytest

from port.translation.codegen.imports import Imports
from port.translation.codegen.load_function import load_function

PLAIN = "rngs=rngs or nnx.Rngs(0), **options"


@pytest.mark.parametrize(
    ("arguments", "takes", "partly", "lines", "imported"),
    [
        ({}, False, False, [f"model = Net({PLAIN})", "load_weights(model, path)"], ["load_weights"]),
        (
            {},
            False,
            True,
            ["with filled_later():", f"    model = Net({PLAIN})", "load_weights(model, path)"],
            ["filled_later, load_weights"],
        ),
        (
            {"width": "4"},
            True,
            True,
            [
                "options = saved_arguments(path, Net, options, width=4)",
                "with filled_later():",
                f"    model = Net({PLAIN})",
                "load_weights(model, path)",
            ],
            ["filled_later, load_weights, saved_arguments"],
        ),
        (
            {"inner": "Inner(4, **options)"},
            True,
            False,
            [
                'options = {"rngs": rngs or nnx.Rngs(0), **options}',
                "options = saved_arguments(path, Net, options, inner=Inner(4, **options))",
                "model = Net(**options)",
                "load_weights(model, path)",
            ],
            ["load_weights, saved_arguments"],
        ),
    ],
)
def test_the_lines(arguments: dict[str, str], takes: bool, partly: bool, lines: list[str], imported: list[str]) -> None:
    imports = Imports()
    text = load_function("Net", "net.safetensors", arguments, imports, takes_arguments=takes, partly=partly)
    compile(text, "load", "exec")
    assert text.index(lines[0]) > text.index('"""')
    assert "\n".join(f"    {line}" for line in lines) in text
    assert text.endswith("    return model")
    assert all(name in imports.text() for name in imported)
