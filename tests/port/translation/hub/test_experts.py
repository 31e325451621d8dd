"""Sorted tokens, each group times its own matrix: `jax.lax.ragged_dot` is the operator of ``transformers``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

from port.translation.hub.experts import GROUPED

pytest.importorskip("transformers", reason="an extra of the tests'")


@pytest.mark.parametrize("offs", [(3, 3, 9, 10), (0, 4, 4, 10), (10, 10, 10, 10)])
def test_values_and_gradients(offs: tuple[int, ...]) -> None:
    import transformers.integrations.moe  # noqa: F401  # defines the operator

    torch.manual_seed(0)
    given = {
        "input": torch.randn(10, 5, dtype=torch.float64, requires_grad=True),
        "weight": torch.randn(4, 5, 3, dtype=torch.float64, requires_grad=True),
        "offs": torch.tensor(offs, dtype=torch.int32),
    }
    cotangent = torch.randn(10, 3, dtype=torch.float64)
    theirs = eval(GROUPED.says, {"torch": torch}, given)
    gradients = torch.autograd.grad(theirs, (given["input"], given["weight"]), cotangent)

    def ours(input: jax.Array, weight: jax.Array) -> jax.Array:
        names = {"input": input, "weight": weight, "offs": jnp.asarray(offs, jnp.int32), "jnp": jnp, "lax": lax}
        result: jax.Array = eval(GROUPED.jax, names)
        return result

    with jax.enable_x64(True):
        arrays = [given[name].detach().numpy() for name in ("input", "weight")]
        value, back = jax.vjp(ours, *map(jnp.asarray, arrays))
        np.testing.assert_allclose(value, theirs.detach().numpy(), rtol=1e-13, atol=1e-13)
        for found, expected in zip(back(jnp.asarray(cotangent.numpy())), gradients, strict=True):
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-13, atol=1e-13)
        # A fault is seen: the group after the right one.
        shifted = np.roll(arrays[1], 1, axis=0)
        assert (
            np.abs(np.asarray(ours(jnp.asarray(arrays[0]), jnp.asarray(shifted))) - theirs.detach().numpy()).max() > 0.1
        )
