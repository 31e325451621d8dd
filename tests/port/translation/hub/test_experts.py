"""Sorted tokens, each group times its own matrix: what the original's loop over its experts gives."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

from port.translation.hub.experts import GROUPED, IMPLEMENTATION, with_grouped_experts

transformers = pytest.importorskip("transformers", reason="an extra of the tests'")

TOKENS, EXPERTS, CHOSEN = 12, 5, 2
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "MixtralForCausalLM": ("MixtralExperts", {"num_local_experts": EXPERTS, "intermediate_size": 6}),
    # Matrices the other way round, with a bias; gate and up alternate.
    "GptOssForCausalLM": ("GptOssExperts", {"num_local_experts": EXPERTS, "intermediate_size": 6}),
    "NemotronHForCausalLM": ("NemotronHExperts", {"n_routed_experts": EXPERTS, "moe_intermediate_size": 6}),  # no gate
}


@pytest.mark.parametrize("name", KINDS)
def test_tokens_in_groups_are_the_loop_over_experts(name: str) -> None:
    kind, fields = KINDS[name]
    model_class = getattr(transformers, name)
    config = model_class.config_class(hidden_size=8, **fields)
    experts = getattr(sys.modules[model_class.__module__], kind)(config).double()
    torch.manual_seed(0)
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter)
    tokens = torch.randn(TOKENS, 8, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(TOKENS, CHOSEN, dtype=torch.float64, requires_grad=True)
    # No token chooses the second expert, and none chooses one twice.
    index = torch.stack([torch.tensor([0, 2, 3, 4])[torch.randperm(4)[:CHOSEN]] for _ in range(TOKENS)])
    cotangent = torch.randn(TOKENS, 8, dtype=torch.float64)

    def run(implementation: str, index: torch.Tensor = index) -> list[torch.Tensor]:
        config._experts_implementation = implementation
        made = experts(tokens, index, weights)
        return [made, *torch.autograd.grad(made, (tokens, weights, *experts.parameters()), cotangent)]

    loop = run("eager")
    with_grouped_experts(model_class, [config])
    assert config._experts_implementation == IMPLEMENTATION
    for found, expected in zip(run(IMPLEMENTATION), loop, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert (run(IMPLEMENTATION, index.flip(1))[0] - loop[0]).abs().max() > 0.1  # a fault is seen


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
