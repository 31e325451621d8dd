"""Translation metadata: the layouts of draws in training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.numpy import save_file
from torch import nn
from torch.nn import functional as F

import port
from port.errors import BrokenWeights
from port.translation import draw_layouts
from port.translation.folder import write_folder


class Net(nn.Module):
    """Draws of images, of whole channels, and behind a flatten, whose order differs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(2, 3, 3), nn.Linear(3 * 2 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout2d(F.dropout(self.conv(x), 0.1, self.training), 0.1, self.training)
        return self.head(F.dropout(x.flatten(1), 0.1, self.training))


@pytest.mark.sweep
def test_the_layouts_of_draws_are_read_back(tmp_path: Path) -> None:
    made = port.translate(Net(), torch.randn(2, 2, 4, 6), name="net", check=False)
    write_folder(made, tmp_path / "net", name="net")
    layouts = draw_layouts(tmp_path / "net" / "net.safetensors")
    assert layouts == made.draws[True]
    assert [layouts[place].order for place in (0, 2)] == [(0, 2, 3, 1), (0, 1)]
    assert [layout.folded is None for layout in layouts] == [True, True, False]


def test_a_file_of_no_translation_is_refused(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2).numpy()}, tmp_path / "other.safetensors")
    with pytest.raises(BrokenWeights, match="has no translation metadata"):
        draw_layouts(tmp_path / "other.safetensors")
