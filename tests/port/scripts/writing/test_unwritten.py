"""What keeps an update from being written: said with the line, and only where it does."""

from __future__ import annotations

from typing import Any

import pytest

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.writing.unwritten import rate_is_given, reasons_against, remarks_beside


def event(kind: str, line: int, **more: Any) -> Event:
    return {"event": kind, "where": {"file": "train.py", "line": line, "text": ""}, **more}


def seen(*events: Event) -> Observation:
    return Observation({}, steps=[list(events)] * 2)


UPDATE = event("update", 9, by_hand=False, name="optimizer", groups=[{"lr": 0.1}])
SCALE = event("scaler", 5, method="scale", enabled=True, scale=65536.0)
UNSCALE = event("scaler", 6, method="unscale_", enabled=True, scale=65536.0)
CLIP = event("clip", 7)


def reasons(*events: Event) -> str:
    return "; ".join(reasons_against(seen(*events), []))


def test_clipping_of_scaled_gradients() -> None:
    assert "train.py:7 clips gradients that GradScaler has scaled" in reasons(SCALE, CLIP, UPDATE)
    for events in ((SCALE, UNSCALE, CLIP, UPDATE), (CLIP, UPDATE), ({**SCALE, "enabled": False}, CLIP, UPDATE)):
        assert "GradScaler" not in reasons(*events)


def test_autocast_is_a_remark() -> None:
    on = event("autocast", 4, device="cpu", dtype="torch.bfloat16", enabled=True)
    (remark, _) = remarks_beside(seen(on, SCALE, UPDATE))
    assert "train.py:4: autocast to bfloat16 is left out" in remark and "autocast" not in reasons(on, UPDATE)
    assert not remarks_beside(seen({**on, "enabled": False}, {**SCALE, "enabled": False}, UPDATE))


def test_descent_by_hand_has_a_rate() -> None:
    descent = event("update", 8, by_hand=True, function="torch.Tensor.add_", parameter="model.weight", rate=0.1)
    assert rate_is_given(seen(descent)) and "by hand" not in reasons(descent)
    other = {**descent, "rate": None}  # with a momentum, say
    assert not rate_is_given(seen(other))
    assert "by hand (train.py:8), and not by p.add_(p.grad, alpha=-rate)" in reasons(other)
    assert "by hand" in reasons(descent, UPDATE)  # and an optimizer besides


NET = {
    "name": "net",
    "constructed": {"where": {"file": "train.py", "line": 3, "text": "Net()"}},
    "parameters": [{"trained": True}],
    "wrapped": ["torch.nn.parallel.distributed.DistributedDataParallel"],
    "layers": {"norm": "torch.nn.modules.batchnorm.SyncBatchNorm"},
    "buffers": [],
}
PROCESSES = {
    "as one whole batch": ({}, ""),
    "statistics of a part": ({"layers": {"norm": "torch.nn.modules.batchnorm.BatchNorm2d"}}, "convert_sync_batchnorm"),
    "statistics of some": (
        {"groups": {"norm": 2}},
        "a process_group of its own, of 2 of the processes",
    ),
    "not wrapped": ({"wrapped": []}, "is in no DistributedDataParallel"),
}


@pytest.mark.parametrize("case", PROCESSES)
def test_several_processes(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not the update of one process on the whole batch is refused with the model's line."""
    changed, words = PROCESSES[case]
    call = event("call", 5, name="net", grad=True)
    observation = Observation({}, models=[{**NET, **changed}], steps=[[call, UPDATE]] * 2)
    alone = "; ".join(reasons_against(observation, []))
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = "; ".join(reasons_against(observation, []))
    if words:
        assert words in found and "(train.py:3, `Net()`)" in found and words not in alone
    else:
        assert found == alone
