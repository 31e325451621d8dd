"""`port.nn.LoRA` beside PEFT's formula in torch, in float64: outputs, gradients, one step of the factors alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx

from port.nn import LoRA
from tests.port.weights.some_adapter import Adapted

X = np.random.default_rng(3).normal(size=(4, 6))


@pytest.fixture
def both(float64):
    torch.manual_seed(1)
    module = Adapted(torch.nn.Linear(6, 5), 2, 1.5).double()
    return module, twin_of(module)


def twin_of(module, **options):
    given = {"rngs": nnx.Rngs(0), "param_dtype": jnp.float64}
    linear = nnx.Linear(6, 5, **given)
    twin = LoRA(6, 2, 5, base_module=linear, **({"scaling": module.scaling} | given | options))
    linear.kernel[...] = jnp.asarray(module.base_layer.weight.detach().numpy().T)
    linear.bias[...] = jnp.asarray(module.base_layer.bias.detach().numpy())
    twin.lora_a[...] = jnp.asarray(module.lora_A.weight.detach().numpy().T)
    twin.lora_b[...] = jnp.asarray(module.lora_B.weight.detach().numpy().T)
    return twin


def compared(module, twin):
    """The largest difference of the outputs, and of each factor's gradient."""
    module.zero_grad()
    output = module(torch.from_numpy(X))
    output.square().sum().backward()
    gradient = nnx.grad(lambda m: jnp.square(m(X)).sum(), argnums=nnx.DiffState(0, nnx.LoRAParam))(twin)
    found = {"output": np.abs(np.asarray(twin(X)) - output.detach().numpy()).max()}
    assert set(gradient) == {"lora_a", "lora_b"}
    for name, linear in (("lora_a", module.lora_A), ("lora_b", module.lora_B)):
        found[name] = np.abs(np.asarray(gradient[name][...]).T - linear.weight.grad.numpy()).max()
    return found


def test_outputs_and_gradients_are_peft_s(both):
    assert max(compared(*both).values()) < 1e-12


def test_a_scaling_folded_into_b_is_another_training(both):
    """The same function, and a gradient of B that is another: what `nnx.LoRA` would train."""
    module, twin = both
    twin.lora_b[...] = twin.lora_b[...] * twin.scaling
    twin.scaling = 1.0
    found = compared(module, twin)
    assert found["output"] < 1e-12
    assert found["lora_b"] > 0.1


def test_the_factors_are_trained_alone(both):
    module, twin = both
    before = np.asarray(twin.base_module.kernel[...])
    optimizer = nnx.Optimizer(twin, optax.sgd(0.1), wrt=nnx.LoRAParam)
    optimizer.update(twin, nnx.grad(lambda m: jnp.square(m(X)).sum(), argnums=nnx.DiffState(0, nnx.LoRAParam))(twin))
    trained = torch.optim.SGD([module.lora_A.weight, module.lora_B.weight], 0.1)
    module(torch.from_numpy(X)).square().sum().backward()
    trained.step()
    assert np.abs(np.asarray(twin(X)) - module(torch.from_numpy(X)).detach().numpy()).max() < 1e-12
    assert np.array_equal(before, np.asarray(twin.base_module.kernel[...]))


def test_the_dropout_is_of_what_goes_into_a(both):
    module, _ = both
    twin = twin_of(module, dropout_rate=0.5, dropout_rngs=nnx.Rngs(7))
    out = np.asarray(twin(X)) - np.asarray(twin.base_module(X))
    mask = np.asarray(nnx.Dropout(0.5, rngs=nnx.Rngs(7))(jnp.ones((4, 6))))
    wanted = 1.5 * (X * mask) @ np.asarray(twin.lora_a[...]) @ np.asarray(twin.lora_b[...])
    assert set(mask.ravel()) == {0, 2}
    assert np.abs(out - wanted).max() < 1e-12
    twin.eval()
    assert np.abs(np.asarray(twin(X)) - module(torch.from_numpy(X)).detach().numpy()).max() < 1e-12


def test_a_dropout_that_nothing_draws_is_not_left_out_in_silence(both):
    twin = twin_of(both[0], dropout_rate=0.5)
    with pytest.raises(ValueError, match="rngs"):
        twin(X)
    twin.eval()
    assert compared(both[0], twin)["output"] < 1e-12


def test_the_output_is_in_the_base_s_dtype():
    linear = nnx.Linear(6, 5, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    twin = LoRA(6, 2, 5, base_module=linear, rngs=nnx.Rngs(0))
    x = jnp.ones((1, 6), jnp.bfloat16)
    assert twin(x).dtype == linear(x).dtype == jnp.bfloat16
    assert jax.tree.leaves(nnx.state(twin, nnx.LoRAParam))[0].dtype == jnp.float32


def test_it_begins_as_peft_s():
    """`kaiming_uniform_(a=√5)` of A, as `reset_lora_parameters` draws it; B at zero, so that nothing is added yet."""
    twin = LoRA(400, 100, 7, rngs=nnx.Rngs(0))
    theirs = torch.nn.init.kaiming_uniform_(torch.empty(100, 400), a=5**0.5).numpy()
    ours = np.asarray(twin.lora_a[...])
    assert 0.999 / 20 < np.abs(ours).max() <= 1 / 20
    assert ours.std() == pytest.approx(theirs.std(), rel=0.02)
    assert np.asarray(nnx.LoRA(400, 100, 7, rngs=nnx.Rngs(0)).lora_a[...]).std() > 2 * theirs.std()
    assert not np.asarray(twin.lora_b[...]).any()


def test_alone_it_is_what_is_added(both):
    _, twin = both
    alone = LoRA(6, 2, 5, scaling=1.5, rngs=nnx.Rngs(0), param_dtype=jnp.float64)
    alone.lora_a[...], alone.lora_b[...] = twin.lora_a[...], twin.lora_b[...]
    assert np.abs(np.asarray(alone(X) + twin.base_module(X) - twin(X))).max() < 1e-13
