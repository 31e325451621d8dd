"""The proof: a translation agrees, and each planted fault is caught."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

import port
from port.judging import Status
from port.translation import Translation
from port.translation.verify import Proof, prove

from ..nets import INPUTS, Attention, Blocks, Small, translated

# The comparison itself calls what flax is giving up: without this, every proof says that the module does not run.
# `test_the_comparison_gives_no_warning` is there to be heard of when it no longer does.
FLAX = "ignore:`flax.nnx.State` will be deprecated:DeprecationWarning"
pytestmark = pytest.mark.filterwarnings(FLAX)


@dataclass(frozen=True)
class Fault:
    """A translation that is not the same any more.

    Attributes:
        cls: whose translation is changed.
        before: a piece of the source that stands there once; or the name of a value.
        after: what it becomes: source, or a function of the value.
        seen: the row of the proof that says so; empty where the written module does not run.
    """

    cls: type[nn.Module]
    before: str
    after: str | Callable[[np.ndarray], np.ndarray]
    seen: str


IN_EVALUATION, IN_TRAINING = "outputs in evaluation", "outputs in training"
GRADIENTS, BUFFERS = "gradients in evaluation", "buffers after training"

FAULTS = {
    # Another function.
    "activation": Fault(Small, "nnx.relu(", "nnx.leaky_relu(", IN_EVALUATION),
    "average of the maximum": Fault(Small, "F.max_pool(x, (2, 2))", "nnx.avg_pool(x, (2, 2), (2, 2))", IN_EVALUATION),
    "shifted window": Fault(Small, "padding=1", "padding=((2, 0), (1, 1))", IN_EVALUATION),
    "padding": Fault(Small, "padding=1", "padding=0", ""),
    "dilation": Fault(Small, "padding=1", "padding=2, kernel_dilation=2", IN_EVALUATION),
    "order of norm and activation": Fault(
        Small, "nnx.relu(self.norm(self.conv(x)))", "self.norm(nnx.relu(self.conv(x)))", IN_EVALUATION
    ),
    "axis of softmax": Fault(Attention, "* self.scale)", "* self.scale, axis=-2)", IN_EVALUATION),
    "scale forgotten": Fault(Attention, " * self.scale)", ")", IN_EVALUATION),
    "residual forgotten": Fault(Attention, "return x + self.out(y)", "return self.out(y)", IN_EVALUATION),
    "norm forgotten": Fault(Attention, "self.qkv(self.norm(x))", "self.qkv(x)", IN_EVALUATION),
    "queries and keys swapped": Fault(Attention, "q, k, v = ", "k, q, v = ", IN_EVALUATION),
    "tanh of the sum": Fault(Blocks, "x + self.scale", "jnp.tanh(x) + self.scale", IN_EVALUATION),
    "mask forgotten": Fault(
        Blocks,
        'return {"logits": self.embed.attend(x), "gained": x @ self.gain[...] * self.mask[...]}',
        'return {"logits": self.embed.attend(x), "gained": x @ self.gain[...]}',
        IN_EVALUATION,
    ),
    # Another number.
    "eps": Fault(Small, "BatchNorm(4, ", "BatchNorm(4, eps=1e-6, ", IN_EVALUATION),
    "eps of LayerNorm": Fault(Attention, "epsilon=1e-05", "epsilon=1e-06", IN_EVALUATION),
    "scale a little off": Fault(Attention, "* self.scale)", "* self.scale * 1.000002)", IN_EVALUATION),
    "heads": Fault(
        Attention, "3, self.heads, d // self.heads)", "3, 2 * self.heads, d // self.heads // 2)", IN_EVALUATION
    ),
    "constant of one instance": Fault(Blocks, "Block(6, scale=0.5, ", "Block(6, ", IN_EVALUATION),
    # Statistics.
    "momentum": Fault(Small, "BatchNorm(4, ", "BatchNorm(4, momentum=0.2, ", BUFFERS),
    "statistics never used": Fault(
        Small, "self.norm(self.conv(x))", "self.norm(self.conv(x), use_running_average=False)", IN_EVALUATION
    ),
    "statistics not updated": Fault(Small, "BatchNorm(4, ", "BatchNorm(4, momentum=0.0, ", BUFFERS),
    "statistics used in training": Fault(
        Small, "self.norm(self.conv(x))", "self.norm(self.conv(x), use_running_average=True)", IN_TRAINING
    ),
    "biased variance": Fault(Small, "BatchNorm(4, ", "nnx.BatchNorm(4, momentum=0.9, ", BUFFERS),
    "buffer not written": Fault(Blocks, "self.calls[...] + 1", "self.calls[...]", BUFFERS),
    # Weights.
    "square weight transposed": Fault(Attention, "out.kernel", lambda kernel: kernel.T, IN_EVALUATION),
    "kernel turned": Fault(Small, "conv.kernel", lambda kernel: kernel.swapaxes(0, 1), IN_EVALUATION),
    "flatten in torch's order": Fault(
        Small, "x.reshape(x.shape[0], -1)", "jnp.moveaxis(x, -1, 1).reshape(x.shape[0], -1)", IN_EVALUATION
    ),
    "fold forgotten": Fault(
        Small,
        "head.kernel",
        lambda kernel: kernel.reshape(3, 2, 4, 3).transpose(2, 0, 1, 3).reshape(24, 3),
        IN_EVALUATION,
    ),
    "missing bias": Fault(Small, "nnx.Linear(24, 3, ", "nnx.Linear(24, 3, use_bias=False, ", IN_EVALUATION),
    "running variance": Fault(Small, "norm.var", np.sqrt, IN_EVALUATION),
    "weight in half precision": Fault(
        Small, "conv.kernel", lambda kernel: kernel.astype(np.float16).astype(np.float32), IN_EVALUATION
    ),
    # Gradients alone.
    "gradient cut": Fault(Small, "self.conv(x))", "jax.lax.stop_gradient(self.conv(x)))", GRADIENTS),
    "gradient of the values cut": Fault(Attention, "weights @ v", "weights @ jax.lax.stop_gradient(v)", GRADIENTS),
    # What does not run.
    "a name that there is not": Fault(Small, "nnx.relu(", "nnx.no_such_function(", ""),
}


def planted(fault: Fault) -> Translation:
    translation = translated(fault.cls)[1]
    if callable(fault.after):
        values = dict(translation.values)
        values[fault.before] = np.array(fault.after(values[fault.before]))
        return replace(translation, values=values)
    assert translation.source.count(fault.before) == 1, fault.before
    return replace(translation, source=translation.source.replace(fault.before, fault.after))


def proof_of(cls: type[nn.Module], translation: Translation) -> Proof:
    return prove(translated(cls)[0], translation, (INPUTS[cls](),), {})


@pytest.mark.thin(3)
@pytest.mark.parametrize("cls", [Small, Attention, Blocks])
def test_what_is_the_same_agrees(cls: type[nn.Module]) -> None:
    proof = proof_of(cls, translated(cls)[1])
    assert proof.agrees, str(proof)
    assert proof.precision == "float64"
    kinds = {row.what for row in proof.rows}
    assert {IN_EVALUATION, IN_TRAINING, GRADIENTS, "gradients in training"} <= kinds
    assert (BUFFERS in kinds) == (cls is not Attention)
    assert str(proof).startswith("float64: both sides agree\n")


@pytest.mark.thin(34)
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    fault = FAULTS[name]
    proof = proof_of(fault.cls, planted(fault))
    assert not proof.agrees
    assert "DIFFER" in str(proof)
    if not fault.seen:
        assert proof.failed.startswith("the written module does not run")
        return
    assert not proof.failed, proof.failed
    assert fault.seen in [row.what for row in proof.rows if not row.agrees], str(proof)


# A loop of which JAX does not know how often it runs has no gradient.
LOOPED = "jax.lax.while_loop(lambda x: jnp.any(x != x), lambda x: x, {})"


@pytest.mark.sweep
def test_what_jax_cannot_differentiate_is_said() -> None:
    translation = translated(Attention)[1]
    before = "return x + self.out(y)"
    source = translation.source.replace(before, f"return {LOOPED.format('x + self.out(y)')}")
    proof = proof_of(Attention, replace(translation, source=source))
    assert proof.status is Status.DIFFER and [row.what for row in proof.rows] == [IN_EVALUATION]
    assert proof.rows[0].agrees
    assert re.match(
        r"the written module runs in evaluation, but JAX cannot differentiate it, .*while_loop", proof.failed
    )
    source = source.replace("x + self.out(y)", "1.1 * x + self.out(y)")
    assert not proof_of(Attention, replace(translation, source=source)).rows[0].agrees


class Constant(nn.Module):
    """torch has no gradient of it either."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.zeta(x.exp() + 1.5, torch.full((6,), 1.5, dtype=x.dtype))


@pytest.mark.parametrize("fault", ["", pytest.param("1.00001 * ", marks=pytest.mark.sweep)])
def test_what_neither_side_differentiates_has_its_outputs_compared(fault: str) -> None:
    module, x = Constant(), torch.randn(3, 6)
    translation = port.translate(module, x, static=True, check=False)
    (line,) = (line for line in translation.source.splitlines() if "return F.zeta(" in line)
    given = line.partition("return ")[2]
    source = translation.source.replace(given, f"{fault}{LOOPED.format(given)}")
    proof = prove(module, replace(translation, source=source), (x,), {})
    assert not proof.failed and proof.status is (Status.DIFFER if fault else Status.AGREE), str(proof)
    assert any("JAX has no gradient in" in remark for remark in proof.remarks)


@pytest.mark.sweep
def test_the_comparison_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert proof_of(Attention, translated(Attention)[1]).agrees


class Zeros(nn.Module):
    """Its bias is zero, as many a new model's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


@pytest.mark.sweep
def test_a_bias_of_zeros_that_is_missing_is_caught() -> None:
    module, x = Zeros(), torch.randn(4, 3)
    translation = port.translate(module, x, check=False)
    source = translation.source.replace("nnx.Linear(3, 2, ", "nnx.Linear(3, 2, use_bias=False, ")
    assert source != translation.source
    assert not prove(module, replace(translation, source=source), (x,), {}).agrees


@pytest.mark.sweep
def test_a_count_of_batches_that_is_missing_is_caught() -> None:
    source = translated(Small)[1].source.replace("BatchNorm(4, ", "BatchNorm(4, track_running_stats=False, ")
    trained = copy.deepcopy(translated(Small)[0])
    proof = prove(trained, replace(translated(Small)[1], source=source), (INPUTS[Small](),), {})
    assert not any(row.agrees for row in proof.rows if row.what == BUFFERS)
    assert any(row.what == BUFFERS for row in proof.rows)


@pytest.mark.sweep
def test_what_cannot_be_compared_is_told() -> None:
    class OnlyInEvaluation(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                raise RuntimeError("not meant to be trained")
            return super().forward(x)

    module, x = Zeros(), torch.randn(4, 3)
    translation = port.translate(module, x, check=False)
    module.linear = OnlyInEvaluation(3, 2)
    proof = prove(module, replace(translation, values=_values(module)), (x,), {})
    assert proof.agrees, str(proof)
    assert {row.what.rpartition(" ")[2] for row in proof.rows} == {"evaluation"}
    assert "training mode was not compared, since the original does not run in it: RuntimeError: not meant" in str(
        proof
    )


def _values(module: Zeros) -> dict[str, np.ndarray]:
    return {
        "linear.kernel": module.linear.weight.detach().numpy().T.copy(),
        "linear.bias": module.linear.bias.detach().numpy().copy(),
    }


class Whole(nn.Module):
    """What it gives has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).argmax(-1)


class Backwards(torch.autograd.Function):
    """The identity, which torch cannot go back through."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("no way back")


@pytest.mark.sweep
def test_gradients_that_torch_has_not_are_told() -> None:
    x = torch.randn(4, 3)
    proof = port.translate(Whole(), x).proof
    assert proof is not None and proof.agrees, str(proof)
    assert not any("gradient" in row.what for row in proof.rows)
    assert "gradients in training were not compared" in str(proof)
    module = Zeros()
    translation = port.translate(module, x, check=False)
    module.linear.register_forward_hook(lambda layer, args, result: Backwards.apply(result))
    proof = prove(module, replace(translation, values=_values(module)), (x,), {})
    assert not any("gradient" in row.what for row in proof.rows)
    assert "since torch has none: no way back" in str(proof)


class SaysWhatNeedsAGradient(nn.Module):
    """In training it sets on what it is given what only a tensor of no other one may have set."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x[:, None]
        if self.training:
            x.requires_grad = True
        return self.fc(x)


@pytest.mark.sweep
def test_a_module_that_takes_no_inputs_that_need_a_gradient_is_trained_all_the_same() -> None:
    module, x = SaysWhatNeedsAGradient(), torch.randn(2, 4)
    translation = port.translate(module, x)
    proof = translation.proof
    assert proof is not None and proof.agrees
    rows = {row.what for row in proof.rows}
    assert {"gradients in training", "gradients of the inputs in evaluation"} <= rows
    assert "gradients of the inputs in training" not in rows
    assert any("takes no inputs that need one: you can only change requires_grad" in each for each in proof.remarks)
    planted = replace(translation, source=translation.source.replace("self.fc(", "2 * self.fc("))
    assert not prove(module, planted, (x,), {}).agrees
