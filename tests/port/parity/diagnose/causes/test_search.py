"""Flax's values are sought among those of torch's own run alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from port.parity.diagnose.causes import search
from port.parity.diagnose.causes.operation import TorchOperation
from port.parity.diagnose.causes.rerun import Rerun

READ = np.random.default_rng(4).normal(size=(3, 6, 8))


@pytest.mark.parametrize(("ways", "kinds"), [({}, ["another-place"]), ({0: "a cause at an earlier place"}, [])])
def test_elsewhere(ways: Any, kinds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = Rerun([TorchOperation(0, "gru", {}, "encoder", result=torch.from_numpy(READ))])
    target: Any = SimpleNamespace(arrays=lambda: [(READ[:, 2], READ[:, 5])], limit=1e-10, ways=ways)
    monkeypatch.setattr(search.Search, "_run", lambda self, chosen, *, located: first)
    assert [said.kind for said in search.Search(target).elsewhere()] == kinds
