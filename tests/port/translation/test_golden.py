"""Two whole models of torchvision's: what is written for them is what lies in ``golden/``, to the letter.

Where the text is meant to change, ``PORT_UPDATE_GOLDEN=1 pytest -m sweep tests/port/translation/test_golden.py`` writes
the files anew; what changed is then seen in the commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torchvision

import port

GOLDEN = Path(__file__).parent / "golden"
MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "resnet18": torchvision.models.resnet18,
    "vit_b_16": lambda: torchvision.models.vit_b_16(image_size=64),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", MODELS)
def test_the_source_of_a_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = MODELS[name]()
    # Imports are sorted by what the folder holds that it runs in.
    monkeypatch.chdir(tmp_path)
    source = port.translate(module, torch.zeros(2, 3, 64, 64), name=name, check=False, construct=MODELS[name]).source
    path = GOLDEN / f"{name}.py.txt"
    if os.environ.get("PORT_UPDATE_GOLDEN") == "1":
        path.write_text(source, encoding="utf-8")
    assert source == path.read_text(encoding="utf-8")
