"""Empty arguments are refused: an empty path would be the current folder."""

from __future__ import annotations

import pytest

from port.cli import main


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (["convert", "", "-o", "x.npz"], "at the beginning"),
        (["convert", "net.pt", "-o", ""], "after -o"),
        (["convert", "net.pt", "--out="], "after --out"),
        (["convert", "net.pt", "-o", "x.npz", "--like", ""], "after --like"),
        (["translate", "net:Net", "--input", "1,2", "--weights", ""], "after --weights"),
        (["translate", "net:Net", "--input", "1,2", "-o", ""], "after -o"),
        (["match", "a:A", "b:B", "-o", ""], "after -o"),
        (["skill", "-o", ""], "after -o"),
    ],
)
def test_an_empty_argument(arguments: list[str], where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"port: port {arguments[0]}: an argument is empty, {where}, where a path or a value")
