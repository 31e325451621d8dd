"""Free and fixed lengths of the inputs."""

from __future__ import annotations

from port.translation.frontend.input_lengths import InputLengths


def test_axes_that_have_any_length_get_names_of_their_own() -> None:
    lengths = InputLengths((("n", 4, 3), (4, "dim2")))
    named = lengths.with_names({(0, 1): "dim", (1, 0): "dim", (0, 0): "n", (7, 0): "dim"})
    assert named.shapes == (("n", "dim", 3), ("dim3", "dim2"))
    assert lengths.with_names({}) == lengths
