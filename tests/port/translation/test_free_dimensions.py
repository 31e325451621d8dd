"""The lengths that are fixed before any is tried."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import port
from port.translation.free_dimensions import pinned

from .lengths_tried import silently_wrong
from .zoo.example import floats


@pytest.mark.parametrize(
    ("guard", "fixed"),
    [
        ("h // 4 * (w // 4) == 64", {"h", "w"}),
        ("max(h, 2) == 7", {"h"}),
        ("h >= 33", set()),
        ("h == w", set()),
        ("h % 4 == 2", set()),
        ("(h - 1) // 32 + 1 == 1", set()),
        ("(h - 1 + (h + 1) // 2) // ((h + 1) // 2) == 2", set()),  # torch.chunk(x, 2)
    ],
)
def test_a_guard_fixes_what_comes_to_a_number_other_than_one(guard: str, fixed: set[str]) -> None:
    assert pinned(guard, {"h": 33, "w": 34}) == fixed


class Pooled(nn.Module):
    """Halves an image until one pixel is left of the example, and takes the mean of what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(*(nn.Conv2d(3, 3, 3, 2, 1) for _ in range(3)))
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.convs(x)).flatten(1))


@pytest.mark.sweep
def test_an_image_that_ends_as_one_pixel_stays_free() -> None:
    module, x = Pooled(), floats(2, 3, 8, 8)
    translation = port.translate(module, x)
    assert translation.lengths.shapes == (("n", 3, "h", "w"),)
    assert not translation.lengths.conditions
    assert translation.proof is not None
    assert translation.proof.agrees, str(translation.proof)
    assert not silently_wrong(module, translation, (x,), {})


class TypesAtPositions(nn.Module):
    """Reads a table at positions, as many as the input is long."""

    types: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("types", torch.arange(9.0).reshape(1, 9))

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.size(1))[None]
        return x + torch.gather(self.types, 1, positions)


def test_a_table_is_read_at_places_of_a_free_length() -> None:
    translation = port.translate(TypesAtPositions(), floats(2, 5))
    assert "jnp.take_along_axis(self.types[...], positions)" in translation.source
    assert translation.proof is not None and translation.proof.agrees
