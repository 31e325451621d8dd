"""The first hour in PyTorch: twelve things that one does with tensors every day. Alone, in seconds:

    python -m side_by_side.pytorch.basics

Its JAX twin does the same twelve; read them beside each other, and run both:

    port diff basics

Each function returns its results as plain numbers and words, and main() prints them. An error is shown by its name
in place of a result: JAX may do otherwise there, and say nothing.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree


def draw(*shape: int, seed: int = 0) -> Tensor:
    """float64 numbers that both sides have."""
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result as plain numbers, or the name of the error that is raised."""
    try:
        return function(*args).tolist()
    except Exception as error:
        return type(error).__name__


# %% Arrays and their dtypes


def dtypes() -> dict[str, str]:
    """By default a float is float32 and an int int64; what comes from numpy keeps its dtype."""
    whole, half, single = (torch.ones(3, dtype=dtype) for dtype in (torch.int32, torch.bfloat16, torch.float32))
    results = {
        "a list of floats": torch.tensor([1.0, 2.0]),
        "a list of ints": torch.tensor([1, 2]),
        "float64 from numpy": torch.tensor(np.ones(3)),
        "float64 asked for": torch.ones(3, dtype=torch.float64),
        "int32 + 1": whole + 1,  # a Python number is weak: its kind counts, not its size
        "int32 + 1.0": whole + 1.0,  # float32
        "bfloat16 + 1.0": half + 1.0,
        "int32 + float32": whole + single,  # numpy says float64
        "float32 + float64 ()": single + torch.tensor(1.0, dtype=torch.float64),  # without axes: as weak as a number
        "booleans * 2.0": (whole > 0) * 2.0,  # (G7)
        "sum of int32": whole.sum(),  # (G5)
    }
    return {name: str(result.dtype).removeprefix("torch.") for name, result in results.items()}


# %% Indices: writes in place, and out of bounds


def indices() -> dict[str, Any]:
    """A tensor is memory: a write changes it for all who hold it, or a part of it. An index has to be there."""
    x, y, twice = torch.arange(4.0), torch.zeros(4), torch.tensor([1, 1])
    part = x[2:]  # a view of x's memory
    part += 5.0
    x[0] = 9.0
    y[twice] += 1.0  # reads 0 twice, writes 1 twice
    return {
        "x": x.tolist(),
        "part of x": part.tolist(),
        "1 added at 1 and 1": y.tolist(),
        "accumulated there": torch.zeros(4).index_put_((twice,), torch.tensor(1.0), accumulate=True).tolist(),
        "x[7]": attempt(lambda: x[7]),
        "x[-7]": attempt(lambda: x[-7]),
        "take 7": attempt(lambda: x.take(torch.tensor(7))),  # (W17)
        "x[7] = 9": attempt(lambda: x.index_fill(0, torch.tensor(7), 9.0)),
        "2 from 3 on": attempt(lambda: x.narrow(0, 3, 2)),
    }


# %% Broadcasting


def broadcasting() -> dict[str, Any]:
    """As in numpy: shapes are matched from the last axis on, and an axis of 1 is repeated."""
    predictions, targets = draw(3, 1), draw(3, seed=1)
    with warnings.catch_warnings(action="error"):  # the losses warn of two shapes; operators take them
        checked = attempt(nn.functional.mse_loss, predictions, targets)
    return {
        "the loss": ((predictions[:, 0] - targets) ** 2).mean().item(),
        "wrongly": ((predictions - targets) ** 2).mean().item(),  # (3, 1) and (3,) give (3, 3): each less each
        "checked": checked,
    }


# %% Derivatives of any order


def f(x: Tensor) -> Tensor:
    """Seven operations, element by element."""
    return x**3 * torch.sin(2 * x) + torch.exp(-x)


def derivatives(at: float) -> dict[str, list[float]]:
    """The first three derivatives of f: by the tape, as a tensor knows its history; or of functions, as in JAX."""
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    by_tape, nested, value, derivative = [], [], f(x), f
    for _ in range(3):
        (value,) = torch.autograd.grad(value, x, create_graph=True)  # the gradient is taped as well
        by_tape.append(value.item())
        derivative = grad(derivative)  # a function of x
        nested.append(derivative(x.detach()).item())
    return {"by tape": by_tape, "nested": nested}


# %% What is traced, and what becomes of it


def compiled(function: Callable[..., Any], traced: list[Any], **options: Any) -> Callable[..., Any]:
    """torch.compile: Dynamo reads the function's bytecode; each graph that it makes of it goes into ``traced``."""

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        traced.append(graph)
        return graph.forward  # what is run from now on; the default backend, Inductor, writes C++ or Triton

    torch.compiler.reset()  # forgets the sizes that the function has seen
    return torch.compile(function, backend=backend, **options)


def programs() -> dict[str, list[str]]:
    """The operations of f: as Dynamo notes them, and as ATen runs them, one by one. Inductor would fuse them."""
    traced: list[torch.fx.GraphModule] = []
    compiled(f, traced)(draw(8))
    lowered = make_fx(f)(draw(8))
    return {
        "traced": [node.target.__name__ for node in traced[0].graph.nodes if node.op == "call_function"],
        "run": [str(node.target) for node in lowered.graph.nodes if node.op == "call_function"],
    }


# %% When it is traced again


def traces() -> dict[str, Any]:
    """How often, by the calls: a size or a number that is another in the second one is a variable from there on."""

    def count(function: Callable[..., Any], *calls: list[Any], **options: Any) -> int:
        traced: list[Any] = []
        run = compiled(function, traced, **options)
        for args in calls:
            run(*args)
        return len(traced)

    x, outside = draw(8), 2.0
    run = compiled(lambda: outside * torch.ones(()), [])
    _, outside = run(), 3.0
    return {
        "one shape": count(f, [x], [x], [x]),
        "four shapes": count(f, *([draw(n)] for n in (3, 4, 5, 6))),
        "four shapes in one": count(f, *([draw(n)] for n in (3, 4, 5, 6)), dynamic=True),  # a variable at once
        "two dtypes": count(f, [x], [x.float()]),
        "three floats": count(lambda x, factor: factor * x, [x, 1.0], [x, 2.0], [x, 3.0]),
        "an int and a float": count(lambda x, factor: factor * x, [x, 1], [x, 1.0]),
        "three lengths": count(lambda x, copies: torch.stack([x] * copies), [x, 1], [x, 2], [x, 3]),
        "2 outside, now 3": run().item(),  # looked at in each call: it is traced again
    }


# %% vmap, and the gradient of each sample


def per_sample() -> dict[str, Any]:
    """vmap maps over an axis of which the function knows nothing; in_dims says which, None that all share it."""

    def loss_fn(w: Tensor, x: Tensor, y: Tensor) -> Tensor:  # of one sample: w and x (3,), y ()
        return (x @ w - y) ** 2

    w, x, y = draw(3), draw(2, 3, seed=1), draw(2, seed=2)
    gradients = vmap(grad(loss_fn), in_dims=(None, 0, 0))(w, x, y)
    looped = torch.stack([grad(loss_fn)(w, *sample) for sample in zip(x, y, strict=True)])
    return {
        "gradients": gradients.tolist(),
        "the same in a loop": gradients.allclose(looped),
        "their mean": gradients.mean(0).tolist(),  # the gradient of the mean
    }


# %% Random numbers


def random_numbers() -> dict[str, bool]:
    """A generator has a state, which each draw moves on: what was drawn before decides (W25)."""
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(3, generator=generator), torch.randn(3, generator=generator)
    state = generator.get_state()  # belongs in every checkpoint
    third = torch.randn(3, generator=generator)
    resumed = torch.randn(3, generator=generator.set_state(state))
    torch.rand(1, generator=generator.manual_seed(0))
    return {
        "drawn again": first.equal(second),
        "drawn after another": second.equal(torch.randn(3, generator=generator)),
        "drawn in a resumed run": third.equal(resumed),
    }


# %% Trees of arrays, and state dicts


def trees() -> dict[str, Any]:
    """A state dict is flat, and its names are paths. torch has trees too, in a module that begins with _."""
    model: Any = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
    state = model.state_dict()  # the model's own memory: deepcopy it to keep it
    nn.init.constant_(model[0].weight, 5.0)

    def load(weight: Tensor) -> Tensor:
        model.load_state_dict({**state, "0.weight": weight})
        return torch.tensor(model[0].weight.shape)

    tree = {"b": [1.0, None], "a": (2.0,)}
    leaves = pytree.tree_leaves_with_path(tree)
    return {
        "shapes": {name: list(tensor.shape) for name, tensor in state.items()},  # a weight is (out, in) (W1)
        "the state after an update": state["0.weight"].mean().item(),
        "leaves": {pytree.keystr(path): leaf for path, leaf in leaves},  # as inserted; None is one
        "mapped": pytree.tree_map(lambda leaf: leaf and -leaf, tree),
        "another shape": attempt(load, draw(9, 9)),
    }


# %% Control flow


def root(x: Tensor) -> Tensor:
    """√x by Newton's method, six rounds."""
    y = x
    for _ in range(6):
        y = (y + x / y) / 2
    return y


def moving_average(x: Tensor) -> Tensor:
    """(N,) → (N,): each number moves the average a tenth of the way."""
    average, averages = torch.zeros((), dtype=x.dtype), []
    for number in x:
        average = average + 0.1 * (number - average)
        averages.append(average)
    return torch.stack(averages)


def control_flow() -> dict[str, Any]:
    """Python's own. Compiled, an `if` on a value cuts the graph; with fullgraph=True it is an error."""
    two, zero = torch.tensor([2.0, 0.0], dtype=torch.float64)
    return {
        "if, compiled": attempt(compiled(lambda x: x if x > 0 else -x, []), -two),
        "if, in one graph": attempt(compiled(lambda x: x if x > 0 else -x, [], fullgraph=True), -two),
        "sqrt(2) and its gradient": [root(two).item(), grad(root)(two).item()],
        "moving average": moving_average(draw(4)).tolist(),
        # Both sides of a where are computed, and at 0 the gradient of the one that is not taken is 0 · ∞.
        "where": grad(lambda x: torch.where(x > 0, x.sqrt(), 0.0))(zero).item(),
        "where, safe inside": grad(lambda x: torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0))(zero).item(),
    }


# %% State that is not trained


class Centred(nn.Module):
    """x · weight, less a running mean of what came out so far: state that no gradient trains."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(draw(3))
        self.mean = nn.Buffer(torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        self.mean.mul_(0.9).add_(0.1 * y.detach().mean())
        return y - self.mean


def stateful() -> dict[str, Any]:
    """Three updates, of functions: the model is called with parameters and buffers as arguments."""
    model, x = Centred(), draw(4, 3, seed=1)
    params: Any = {name: parameter.detach() for name, parameter in model.named_parameters()}
    stats: Any = dict(model.named_buffers())

    def loss_fn(params: Any, stats: Any) -> tuple[Tensor, Any]:
        stats = {name: buffer.clone() for name, buffer in stats.items()}  # the call writes to them
        loss = (functional_call(model, (params, stats), (x,)) ** 2).mean()
        return loss, stats  # which are no part of the loss: has_aux

    losses = []
    for _ in range(3):
        gradients, (loss, stats) = grad_and_value(loss_fn, has_aux=True)(params, stats)
        params = pytree.tree_map(lambda param, gradient: param - 0.1 * gradient, params, gradients)
        losses.append(loss.item())
    shown = {"losses": losses, "weight": params["weight"].tolist(), "mean": stats["mean"].item()}
    shown |= {"the model's own mean": model.mean.item()}
    compiled(Centred.forward, [])(model, x)  # writes to the model's own, as any call
    return shown | {"after a compiled call": model.mean.item()}


# %% Prints and NaNs


def debugging() -> dict[str, Any]:
    """Compiled code prints in each call. NaNs are looked for backward, if it is asked for, and never forward."""
    run, output = compiled(lambda x: print("print", x), []), io.StringIO()
    with redirect_stdout(output):
        _ = run(torch.tensor(1.0)), run(torch.tensor(2.0))
    x = torch.tensor(-1.0)
    shown = {"printed": output.getvalue().splitlines(), "sqrt(-1)": attempt(torch.sqrt, x)}
    # What it warns of, not to be ignored by others, says which line of the forward pass it was.
    with warnings.catch_warnings(action="ignore"), torch.autograd.set_detect_anomaly(True):
        shown |= {"sqrt(-1), watched": attempt(torch.sqrt, x), "its gradient, watched": attempt(grad(torch.sqrt), x)}
    return shown


# %% The tour


def show(title: str, results: dict[str, Any]) -> None:
    """A title, and a line a result."""
    print(f"# {title}", *(f"    {name + ':':28}{result}" for name, result in results.items()), sep="\n")


def main() -> None:
    """Cell by cell."""
    show("Arrays and their dtypes", dtypes())
    show("Indices: writes in place, and out of bounds", indices())
    show("Broadcasting", broadcasting())
    show("Derivatives of any order", derivatives(0.7))
    show("What is traced, and what becomes of it", programs())
    show("When it is traced again", traces())
    show("vmap, and the gradient of each sample", per_sample())
    show("Random numbers", random_numbers())
    show("Trees of arrays, and state dicts", trees())
    show("Control flow", control_flow())
    show("State that is not trained", stateful())
    show("Prints and NaNs", debugging())


if __name__ == "__main__":
    main()
