"""Inputs that do not fit into memory are said, with and without torch."""

from __future__ import annotations

import pytest

from port.cli.inputs import arrays_from_options, inputs_from_options
from port.errors import UsageError


@pytest.mark.parametrize("shape", ["99999999999999999999,3", "1,3,99999999,99999999", "10000000000,10000000000:int64"])
def test_a_shape_that_is_too_large(shape: str) -> None:
    for drawn in (arrays_from_options, inputs_from_options):
        with pytest.raises(UsageError, match=r"does not fit into the memory here: it has .* numbers.*a smaller shape"):
            drawn([shape], None)
