"""Classes under `nnx.remat`: the same model in both modes, with activations recomputed in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from torch import Tensor, nn

import port
from port.errors import UnknownChoice, UsageError
from port.translation import Translation
from port.translation.verify import flax_run, prove
from port.translation.verify.traced_calls import each_call_traced

# The proof filters an nnx.State with a method that flax is about to take away.
pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


class Block(nn.Module):
    """With running statistics and dropout."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop(torch.relu(self.norm(self.conv(x))))


class Stage(nn.Sequential):
    """Has no forward of its own."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 3, 2)
        self.stage = Stage(Block(3), Block(3))
        self.head = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.stage(self.stem(x)).mean((2, 3)))


@cache
def translated(*remat: str, check: bool = False) -> Translation:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return port.translate(Net(), torch.randn(2, 2, 6, 5), remat=remat, check=check)


def run(translation: Translation) -> tuple[Any, Any, Any, Jaxpr]:
    """A step in training in float64, its dropout drawn: the loss, the gradients, all that is held, and what is done."""
    x = np.random.default_rng(1).standard_normal((4, 6, 5, 2))
    with jax.enable_x64(True):
        module = translation.build(seed=3, param_dtype=jnp.float64)
        module.train()
        graph, params, rest = nnx.split(module, nnx.Param, ...)  # type: ignore[misc]

        def loss(params: Any) -> Any:
            model = nnx.merge(graph, params, rest, copy=True)
            return (model(jnp.asarray(x)) ** 2).sum(), nnx.state(model, nnx.Not(nnx.Param))

        (value, state), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
        jaxpr = jax.make_jaxpr(jax.grad(loss, has_aux=True))(params).jaxpr
    return value, gradients, state, jaxpr


@cache
def run_of(*remat: str) -> tuple[Any, Any, Any, Jaxpr]:
    return run(translated(*remat))


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda v: isinstance(v, Jaxpr)):
            inner = value.jaxpr if isinstance(value, ClosedJaxpr) else value
            if isinstance(inner, Jaxpr):
                yield from equations(inner)


def counted(jaxpr: Jaxpr) -> tuple[int, int]:
    """How often the gradient's program stands under a checkpoint, and how many convolutions are in it."""
    names = [equation.primitive.name for equation in equations(jaxpr)]
    return sum(name in ("checkpoint", "remat", "remat2") for name in names), names.count("conv_general_dilated")


def flat(state: Any) -> dict[str, np.ndarray]:
    return {
        ".".join(map(str, path)): np.asarray(
            jax.random.key_data(v) if jnp.issubdtype(v.dtype, jax.dtypes.prng_key) else v
        )
        for path, variable in nnx.to_flat_state(state)
        for v in [variable[...]]
    }


@pytest.mark.sweep
def test_both_sides_agree_in_both_modes() -> None:
    done = translated("Block", check=True)
    assert done.proof is not None and done.proof.agrees, str(done.proof)
    assert {row.what.partition(" at ")[0] for row in done.proof.rows} == {
        f"{what} {mode}"
        for mode in ("evaluation", "training")
        for what in ("outputs in", "gradients in", "gradients of the inputs in", "buffers after")
    }
    assert done.source.count("    @nnx.remat\n    def __call__(self, x: jax.Array) -> jax.Array:") == 1
    assert done.checkpointed == ("Block",)


@pytest.mark.sweep
@pytest.mark.parametrize("remat", [("Block",), ("Stage", "Net")])
def test_a_step_in_training_is_the_same_dropout_and_running_statistics_too(remat: tuple[str, ...]) -> None:
    plain, checkpointed = run_of(), run_of(*remat)
    np.testing.assert_allclose(checkpointed[0], plain[0], rtol=1e-12)
    for ours, theirs in zip(checkpointed[1:3], plain[1:3], strict=True):
        ours, theirs = flat(ours), flat(theirs)
        assert ours.keys() == theirs.keys() and len(ours) > 5
        for name, array in theirs.items():
            np.testing.assert_allclose(ours[name], array, rtol=1e-10, atol=1e-12, err_msg=name)
    # And the numbers are those of this run: dropout is drawn, and another seed's would be others.
    state = flat(plain[2])
    counts = [array for name, array in state.items() if name.endswith("rngs.count")]
    assert counts and all(count == 1 for count in counts)
    assert all(array == 1 for name, array in state.items() if name.endswith("num_batches_tracked"))


@pytest.mark.sweep
def test_the_backward_pass_computes_again_what_was_not_kept() -> None:
    # Three convolutions; a gradient by the kernel for each, and by the input for all but the first.
    assert counted(run_of()[3]) == (0, 3 + 3 + 2)
    checkpoints, convolutions = counted(run_of("Block")[3])
    assert checkpoints == 2 and convolutions == 3 + 3 + 2 + 2


@pytest.mark.sweep
def test_one_in_another() -> None:
    # What the outer computes again stands in the inner one, and is computed once more.
    assert counted(run_of("Stage", "Net")[3])[1] == 3 + 3 + 2 + 3 + 2


@pytest.mark.sweep
def test_less_is_kept_for_the_backward_pass() -> None:
    def kept(translation: Translation) -> int:
        """Bytes between the passes."""
        module = translation.build()
        graph, params, rest = nnx.split(module, nnx.Param, ...)  # type: ignore[misc]

        def outputs(params: Any) -> Any:
            return nnx.merge(graph, params, rest, copy=True)(jnp.ones((4, 6, 5, 2)))

        return sum(array.nbytes for array in jax.tree.leaves(jax.vjp(outputs, params)[1]))

    plain, checkpointed = kept(translated()), kept(translated("Block"))
    activation = 4 * 5 * 4 * 3 * 4  # of float32 (N, H, W, C), as every array between a block's layers
    assert plain - checkpointed >= 2 * 4 * activation  # of each block, at least what goes into norm, relu, dropout, sum


@pytest.mark.sweep
def test_a_class_that_inherits_its_call() -> None:
    source = translated("Stage").source
    method = (
        "    @nnx.remat\n    def __call__(self, input: jax.Array) -> jax.Array:\n        return super().__call__(input)"
    )
    assert method in source[source.index("class Stage(nnx.Sequential)") : source.index("class Net(nnx.Module)")]


@pytest.mark.sweep
def test_a_name_that_no_written_class_has() -> None:
    with pytest.raises(UnknownChoice, match="unknown class to checkpoint 'Blok'; there are: Block, Stage, Net"):
        translated("Block", "Blok")
    with pytest.raises(UsageError, match="unknown class to checkpoint 'BatchNorm2d'"):
        translated("BatchNorm2d")


@pytest.mark.sweep
def test_a_name_with_its_module() -> None:
    assert translated(f"{__name__}.Block").checkpointed == ("Block",)


class Either(nn.Module):
    """Its instances are written as two classes: what they hold differs, and what they do."""

    def __init__(self, is_linear: bool) -> None:
        super().__init__()
        self.inner: nn.Module = nn.Linear(3, 3) if is_linear else nn.Conv1d(3, 3, 1)
        self.is_linear = is_linear

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).sin() if self.is_linear else self.inner(x.mT).mT.cos() * x


@pytest.mark.sweep
def test_one_class_that_was_written_as_two() -> None:
    net = nn.Sequential(Either(True), Either(False))
    both = port.translate(net, torch.randn(2, 4, 3), remat="Either", check=False)
    assert both.checkpointed == ("Either", "Either2") and both.source.count("@nnx.remat") == 2
    second = port.translate(net, torch.randn(2, 4, 3), remat=["Either2"], check=False)
    assert second.checkpointed == ("Either2",) and second.source.count("@nnx.remat") == 1


# %% What nnx.remat takes no arrays for


class Lengths(nn.Module):
    """Is given whole numbers, one by its name, and draws."""

    def __init__(self, mixed: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.mixed = mixed

    def forward(self, x: Tensor, size: Any, **named: Tensor) -> Tensor:
        height, width = size[:2]
        y = x.transpose(1, 2).reshape(-1, 3, height, width).flip(2)
        y = y + torch.randn_like(y) * named["scale"]
        if self.mixed:
            y = y + size[2]
        return self.linear(y.flatten(2).transpose(1, 2))


class Grid(nn.Module):
    def __init__(self, mixed: bool = False) -> None:
        super().__init__()
        self.mixed = mixed
        self.layers = nn.ModuleList([Lengths(mixed), Lengths(mixed)])

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        y = x.flatten(2).transpose(1, 2)
        scale = x.mean()
        size = (height, width, scale) if self.mixed else (height, width)
        for layer in self.layers:
            y = layer(y, size, scale=scale)
        return y + x.mean()


@pytest.mark.sweep
def test_lengths_stay_numbers_and_names_names() -> None:
    module, x = Grid(), torch.randn(2, 3, 4, 5)
    done = port.translate(module, x, remat="Lengths")
    assert "    @nnx.remat(static_argnums=2)\n    def _checkpointed_call(self, x: jax.Array, size: Any," in done.source
    assert "def __call__(self, x: jax.Array, size: Any, **named: Any) -> jax.Array:" in done.source
    assert done.proof is not None and done.proof.agrees, str(done.proof)
    other = replace(done, source=done.source.replace('named["scale"]', '(named["scale"] + 1)'))
    assert not prove(module, other, (x,), {}).agrees


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * torch.rand_like(x)


@pytest.mark.sweep
def test_every_block_draws_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = nn.Sequential(Noisy(), Noisy()), torch.randn(2, 3)
    done = port.translate(module, x, remat="Noisy")
    assert done.checkpointed == ("Noisy",)
    assert done.proof is not None and done.proof.agrees, str(done.proof)
    # Modules that are alike are traced once, and what was drawn meanwhile would stand in both.
    monkeypatch.setattr(flax_run, "each_call_traced", lambda *_: nullcontext())
    assert not prove(module, done, (x,), {}).agrees


@pytest.mark.sweep
def test_every_call_of_a_module_is_told_apart() -> None:
    code = translated("Block").code
    model = code.Net(rngs=nnx.Rngs(0))
    first, second = model.stage.layers
    assert nnx.graphdef(first) == nnx.graphdef(second), "else there would be nothing to tell apart"
    original = code.Block.__call__
    with each_call_traced(code, ("Block",)):
        for block in (first, second):
            block(jnp.zeros((2, 4, 4, 3)))
    assert nnx.graphdef(first) != nnx.graphdef(second)
    assert code.Block.__call__ is original


@pytest.mark.sweep
def test_numbers_among_arrays_are_refused() -> None:
    with pytest.raises(UsageError, match=r"Lengths cannot be checkpointed: its argument [a-z]+ mixes"):
        port.translate(Grid(mixed=True), torch.randn(2, 3, 4, 5), remat="Lengths", check=False)
