"""`port diff`: the lessons, two files beside each other, and what is no file or no lesson."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from port.cli import main
from port.lessons import READING_ORDER, find_lesson

SIDE_BY_SIDE = Path(__file__).parents[3] / "side_by_side"


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, "-m", "port", "diff", *arguments], capture_output=True, check=False, env=kept | environment
    )


def in_a_terminal(*arguments: str, columns: int, **environment: str) -> str:
    """What the command writes to a terminal of its own."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    ours, theirs = pty.openpty()
    size = {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "port", "diff", *arguments], stdout=theirs, env=kept | size | environment
    )
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 65536):
            said += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return said.decode().replace("\r\n", "\n")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "torch.py").write_text("import torch\n\ndef f(x):\n    return x.relu()\n")
    (tmp_path / "jax.py").write_text("import jax\n\ndef f(x):\n    return jax.nn.relu(x)\n")
    (tmp_path / "empty.py").write_bytes(b"")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "latin.py").write_bytes("# é\n".encode("latin-1"))
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "folder").mkdir()
    return tmp_path


def test_the_lessons_a_line_each_in_reading_order(capsys):
    assert main(["diff"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(READING_ORDER)
    assert lines[READING_ORDER.index("train")].split(maxsplit=1)[1] == "The trainer in PyTorch."
    assert all(line.endswith((".", "PyTorch")) for line in lines)


@pytest.mark.parametrize("name", READING_ORDER)
def test_a_lesson_piped_is_plain_and_whole(name, files, capsys):
    assert main(["diff", name]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    for source in find_lesson(name).sources():
        for line in source.lines:
            assert line in out  # in one piece: none of ours is longer than a column


def test_a_written_folder_is_read_beside_its_original_under_the_account(capsys):
    lesson = find_lesson("whole_script")
    assert main(["diff", str(lesson.torch), str(lesson.jax)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(lesson.account()) and "a step, line by line" in out
    assert "# %% train_step.py" in out and "return F.cross_entropy" not in out.partition("# %%")[0]


def test_two_files(files, capsys):
    assert main(["diff", "torch.py", str(files / "jax.py")]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        f"torch.py {files / 'jax.py'}",
        "1 import torch | 1 import jax",
        "2 2",
        "3 def f(x): 3 def f(x):",
        "4 return x.relu() | 4 return jax.nn.relu(x)",
        "lines: 2 equal, | 2 changed, < 0 only on the left, > 0 only on the right",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "unknown lesson 'trian'; there are: train, "),
        (["model.py"], "unknown lesson 'model.py'; there are: model, "),
        (["x" * 3000], "unknown lesson 'xxx"),
        ([""], "unknown lesson ''"),
        (["torch.py"], "'torch.py' is one path; port diff takes two files, or the name of a lesson"),
        (["folder"], "'folder' is one path"),
        (["train", "jax.py"], "'train' is a lesson, and no file here"),
        (["missing.py", "jax.py"], "there is no file 'missing.py'"),
        (["jax.py", "missing\x1b[31m.py"], r"there is no file 'missing\x1b[31m.py'"),
        (["folder", "jax.py"], "'folder' is a folder; give a file"),
        (["torch.py", "binary.py"], "'binary.py' is binary (it contains NUL bytes)"),
        (["latin.py", "jax.py"], "'latin.py' is not UTF-8: byte 0xe9 in line 1"),
        (["torch.py", "x" * 3000], "cannot be read: "),
        (["a", "b", "c"], "port diff takes a lesson, or two files; got 3 arguments"),
    ],
)
def test_what_is_no_lesson_and_no_file_exits_with_2_and_a_message(files, capsys, arguments, words):
    assert main(["diff", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("port: ")
    assert words in said.err
    assert said.err.count("\n") == 1
    assert "\x1b" not in said.err


def test_unknown_options_exit_with_2(capsys):
    with pytest.raises(SystemExit) as raised:
        main(["diff", "--colour"])
    assert raised.value.code == 2


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ("empty.py", "jax.py", ["note  empty.py is empty", "> 4 only on the right"]),
        ("empty.py", "empty.py", ["lines: 0 equal"]),
        ("broken.py", "jax.py", ["note  broken.py does not parse (invalid syntax, line 1): aligned by lines alone"]),
        ("mixed.py", "jax.py", [r"note  mixed.py has mixed line endings (\n, \r, \r\n)", "1 x = 1", "3 z = 3"]),
        ("steering.py", "jax.py", [r"# \x1b]0;title\x07\x1b[2J \u202e"]),
        ("tabs.py", "jax.py", ["1 if x:", "2     y = 2"]),
        ("marked.py", "jax.py", ["1 # [bold]not markup[/] :smile: [link=x]"]),
    ],
)
def test_files_of_all_sorts_are_shown(files, capsys, left, right, words):
    (files / "mixed.py").write_bytes(b"x = 1\r\ny = 2\rz = 3\n")
    (files / "steering.py").write_bytes("# \x1b]0;title\x07\x1b[2J \u202e\n".encode())
    (files / "tabs.py").write_text("if x:\n\ty = 2\n")
    (files / "marked.py").write_text("# [bold]not markup[/] :smile: [link=x]\n")
    assert main(["diff", left, right]) == 0
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    for expected in words:
        assert expected in out


def test_a_very_long_line_is_shown_to_its_end(files, capsys):
    (files / "long.py").write_text("x = '" + "a" * 100_000 + "'\n")
    assert main(["diff", "long.py", "jax.py"]) == 0
    out = capsys.readouterr().out
    assert out.count("a") > 100_000
    assert max(map(len, out.splitlines())) < 300


@pytest.mark.parametrize("arguments", [[], ["train"], ["--help"], ["train", "--json"]])
def test_neither_torch_nor_jax_is_imported(arguments):
    code = (
        "import sys\nfrom port.cli import main\n"
        f"try:\n    main(['diff', *{arguments!r}])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout
    assert "port.lessons.pairing" in done.stderr.split()
    assert not {"torch", "jax", "flax", "side_by_side", "port.data"} & set(done.stderr.split())


def test_in_a_pipe_the_width_can_be_given():
    lines = command("train", COLUMNS="80").stdout.decode().splitlines()
    assert max(map(len, lines[:-1])) <= 80
    wide = command("train").stdout.decode().splitlines()
    assert len(wide) < len(lines)


def test_a_reader_that_has_seen_enough_is_no_error():
    done = subprocess.run(
        f'"{sys.executable}" -m port diff parallel | head -n 1', shell=True, capture_output=True, check=True
    )
    assert done.stderr == b""
    assert b"side_by_side/pytorch/parallel.py" in done.stdout


def test_an_output_that_has_no_unicode_gets_it_written_out():
    done = command("script", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert rb"64 \u2192 128" in done.stdout


@pytest.mark.parametrize("columns", [80, 200])
def test_in_a_terminal_it_is_coloured_and_fits(columns):
    said = in_a_terminal("train", columns=columns)
    assert re.search(r"\x1b\[(\d+;)*(3|9)\d(;\d+)*m", said)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    assert "\x1b" not in plain
    lines = plain.splitlines()
    assert max(map(len, lines[:-1])) in range(columns - 12, columns + 1)


def test_no_color_in_a_terminal():
    said = in_a_terminal("train", columns=80, NO_COLOR="1")
    assert not re.search(r"\x1b\[(\d+;)*(3|4|9)\d(;\d+)*m", said)
    assert "class TrainState(NamedTuple):" in re.sub(r"\x1b\[[0-9;]*m", "", said)


@pytest.mark.sweep
def test_the_tour_as_a_site(files, capsys):
    assert main(["diff", "--html", "site"]) == 0
    assert capsys.readouterr().out == f"{files / 'site' / 'index.html'} is the first page\n"
    assert {path.stem for path in (files / "site" / "lessons").iterdir()} == set(READING_ORDER)


@pytest.mark.sweep
def test_two_files_as_a_site(files, capsys):
    (files / "odd.py").write_text("# <script>alert(1)</script>\r\nx = 1\n" + "y = " + "1 + " * 3_000 + "1\n")
    (files / "\udcff.py").write_text("x = 2\n")
    assert main(["diff", "odd.py", "\udcff.py", "--html", "site"]) == 0
    (page,) = (files / "site" / "lessons").iterdir()
    text = page.read_text("utf-8")
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "mixed line endings" in text


@pytest.mark.sweep
def test_a_site_takes_the_place_of_another(files, capsys):
    assert main(["diff", "empty.py", "broken.py", "--html", "site"]) == 0
    assert main(["diff", "model", "--html", "site"]) == 0
    assert [path.name for path in (files / "site" / "lessons").iterdir()] == ["model.html"]


def test_the_tables(files, capsys):
    assert main(["diff", "--table"]) == 0
    assert "W1   Linear's weight" in capsys.readouterr().out
    assert main(["diff", "--tutorials"]) == 0
    assert "jax.tree.map" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--table", "--tutorials"], "pass only one of them"),
        (["--table", "--html", "site"], "pass only one of them"),
        (["model", "--table"], "pass no lesson or files"),
        (["modell", "--html", "site"], "there are: model,"),
        (["binary.py", "torch.py", "--html", "site"], "is binary"),
        (["torch.py", "nowhere.py", "--html", "site"], "there is no file"),
        (["--html", "folder/../torch.py"], "is a file"),
        (["--html", "."], "holds other files"),
    ],
)
def test_what_is_no_site_and_no_table(arguments, said, files, capsys):
    before = sorted(files.iterdir())
    assert main(["diff", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert sorted(files.iterdir()) == before
