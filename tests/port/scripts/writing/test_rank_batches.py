"""What several processes are given is left for the first: once enough is watched, or at the script's end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from port.errors import UsageError
from port.scripts.writing import rank_batches
from port.scripts.writing.rank_batches import FILE, RankInputs, leaves_it_to_the_first, of_all_ranks


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of the second of two processes."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "rank1").mkdir()
    seen: list[str] = []
    return SimpleNamespace(
        folder=tmp_path / "rank1",
        seen=seen,
        watch=lambda kind, details: seen.append(kind),
        at_end=lambda: seen.append("end"),
    )


@pytest.mark.parametrize("kinds", [["update", "watched"], ["update"]])
def test_it_is_left_at_the_scripts_end_too(kinds: list[str], session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a script with fewer updates than are to be watched nothing says that enough was."""
    capture: Any = SimpleNamespace(paths=[])
    assert leaves_it_to_the_first(session, capture)
    for kind in kinds:
        session.watch(kind, {})
    assert (session.folder / FILE).exists() == ("watched" in kinds)
    session.at_end()
    assert session.seen == [*kinds, "end"]
    found = of_all_ranks(session.folder.parent, RankInputs([], []))
    assert (list(found.inputs), list(found.losses)) == ([], [])


def test_the_first_leaves_nothing(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    capture: Any = SimpleNamespace(paths=[])
    assert not leaves_it_to_the_first(session, capture)


def test_why_there_is_nothing_is_said(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    capture: Any = SimpleNamespace(paths=[SimpleNamespace(calls=3)])  # no path
    assert leaves_it_to_the_first(session, capture)
    session.at_end()
    with pytest.raises(UsageError, match=r"the inputs of process 1 cannot be read: .*Error: "):
        of_all_ranks(session.folder.parent, RankInputs([], []))


def test_a_process_that_leaves_nothing(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_batches, "WAIT_SECONDS", 0.1)
    with pytest.raises(UsageError, match=r"process 1 did not save its inputs within 0\.1 s"):
        of_all_ranks(session.folder.parent, RankInputs([], []))
