"""Options that are wrong are said on standard error, and as JSON where that is asked for."""

from __future__ import annotations

import json

import jsonschema
import pytest

from port.cli import main
from port.cli.parsing import sentence_of
from port.report.results import schema


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["convert", "a.pth", "--format", "xx"], "invalid choice 'xx' for argument '--format'"),
        (["compare"], "Missing from port compare:"),
        (["translate", "a:B", "--time-limit", "x"], "could not convert string to float: 'x'"),
    ],
)
def test_options_of_a_wrong_kind(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--json"])
    told = capsys.readouterr()
    result = json.loads(told.out)
    jsonschema.validate(result, schema())
    assert end.value.code == result["exit_code"] == 2
    assert result["command"] == arguments[0] and words in result["sentence"] and "─" not in result["sentence"]
    assert words in " ".join(told.err.replace("│", " ").split())


def test_without_json_nothing_is_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["convert", "a.pth", "--format", "xx"])
    told = capsys.readouterr()
    assert not told.out and "invalid choice 'xx'" in told.err


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["compare", "--json", "--help"])
    assert not end.value.code and "usage: port compare" in capsys.readouterr().out


def test_the_words_of_a_box() -> None:
    box = "\x1b[31m╭─ Value error ─╮\x1b[0m\n│ Error parsing     │\n│ --steps: no       │\n│ ───── │\n│ help │\n╰───╯\n"
    assert sentence_of(box) == "Error parsing --steps: no"
    plain = " Value error \n ----- \n Error parsing\n --steps: no \n ----- \n help \n\n"
    assert sentence_of(plain) == "Error parsing --steps: no"
    assert sentence_of("") == "invalid options"
