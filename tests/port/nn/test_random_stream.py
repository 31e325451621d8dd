"""Where a layer's random numbers come from."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from flax import nnx

from port.errors import UsageError
from port.nn import AlphaDropout
from port.nn.random_stream import draw_key, own_stream


def test_a_layers_stream_is_a_fork_that_counts_on_as_nnx_dropouts_is() -> None:
    ours, flaxs = own_stream(nnx.Rngs(3), "dropout"), nnx.Dropout(0.5, rngs=nnx.Rngs(3)).rngs
    for _ in range(2):
        assert draw_key(None, ours, "dropout", "It") == flaxs()
    assert draw_key(None, ours, "dropout", "It") != draw_key(None, ours, "dropout", "It")


def test_what_the_call_is_given_goes_first() -> None:
    own, key = own_stream(nnx.Rngs(3), "dropout"), jax.random.key(7)
    assert draw_key(key, own, "dropout", "It") == key
    assert draw_key(nnx.Rngs(dropout=5), own, "dropout", "It") == nnx.Rngs(dropout=5).dropout()
    assert draw_key(nnx.Rngs(5).dropout, own, "dropout", "It") == nnx.Rngs(5).dropout()
    np.testing.assert_array_equal(own.count[...], 0)


def test_no_stream_at_all_is_refused_by_name() -> None:
    assert AlphaDropout().rngs is None
    with pytest.raises(UsageError, match="It draws random numbers and has no rngs"):
        draw_key(None, None, "dropout", "It")
