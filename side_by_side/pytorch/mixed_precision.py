"""Mixed precision: bfloat16 products over float32 weights, by autocast in PyTorch. It runs alone, in seconds, on a CPU:

    python -m side_by_side.pytorch.mixed_precision

Its twin, with dtype= and param_dtype=, begins with the same weights and prints the same tables, but for rounding:

    port diff mixed_precision
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

PIXELS, HIDDEN, CLASSES = 64, 128, 10
IMAGES = 256
LEARNING_RATE = 0.1
FLOAT32, BFLOAT16, FLOAT16 = torch.float32, torch.bfloat16, torch.float16
Batch = tuple[Tensor, Tensor]
SMALL = 1e-4  # what a term of a loss may weigh, beside others


class Precision(NamedTuple):
    """In which dtype the weights are kept, and in which one layers compute."""

    weights: torch.dtype
    layers: torch.dtype


PRECISIONS = {
    "float32": Precision(FLOAT32, FLOAT32),
    "mixed": Precision(FLOAT32, BFLOAT16),
    "bfloat16": Precision(BFLOAT16, BFLOAT16),
}
MIXED_FLOAT16 = Precision(FLOAT32, FLOAT16)

# %% Three formats


def formats() -> dict[str, tuple[float, float, float]]:
    """The largest number of each, its smallest with all digits, and the step from 1 to the next number.

    bfloat16 has float32's range with 8 binary digits; float16 has 11 of them, and a range that gradients leave.
    """
    infos = [torch.finfo(dtype) for dtype in (FLOAT32, BFLOAT16, FLOAT16)]
    return {info.dtype: (info.max, info.smallest_normal, info.eps) for info in infos}


def lost_updates(dtype: torch.dtype, update: float, steps: int) -> float:
    """What becomes of a weight of 1 that gets the same update again and again.

    Between 1 and 2 bfloat16's numbers are 2⁻⁷ apart. Less than half of that is rounded away, every time.
    """
    weight = torch.ones((), dtype=dtype)
    for _ in range(steps):
        weight = weight + torch.tensor(update, dtype=dtype)
    return weight.item()


# %% What a product adds up in


def sums() -> dict[str, float]:
    """256 + 1 + 1 + …, which is 511, in three ways: bfloat16 has no number between 256 and 258."""
    numbers = [256.0] + 255 * [1.0]
    row = torch.tensor(numbers, dtype=BFLOAT16)
    ones = torch.ones(256, dtype=BFLOAT16)
    one_by_one = torch.zeros((), dtype=BFLOAT16)
    for number in numbers:
        one_by_one = one_by_one + number
    # A product of two bfloat16s is exact in float32. Where the sum is to stay there, PyTorch has torch.mm's out_dtype=,
    # on GPUs alone.
    return {
        "bfloat16, number by number": one_by_one.item(),
        "a product: sums in float32, rounds once": (row @ ones).item(),
        "a product that stays in float32": (row.float() @ ones.float()).item(),
    }


def product_errors() -> dict[str, float]:
    """The largest error of a product of float32 matrices at each setting, of the largest number in it.

    "medium" lets a CPU that multiplies bfloat16 do so, and "high" a GPU take TF32. XLA on a CPU heeds no setting (G6).
    """
    left, right = np.random.default_rng(0).normal(size=(2, 256, 256)).astype(np.float32)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    errors, before = {}, torch.get_float32_matmul_precision()
    for setting in ("highest", "high", "medium"):
        torch.set_float32_matmul_precision(setting)
        product = torch.from_numpy(left) @ torch.from_numpy(right)
        errors[setting] = (np.abs(product.numpy() - exact) / np.abs(exact).max()).max().item()
    torch.set_float32_matmul_precision(before)
    return errors


# %% The same images, and a model of the same weights


def load_images() -> Batch:
    """Handwritten digits that come inside scikit-learn: images (N, 64) in [0, 1], float32, and labels (N,)."""
    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images[:IMAGES].astype(np.float32) / 16), torch.from_numpy(labels[:IMAGES])


def init_weights(seed: int) -> dict[str, np.ndarray]:
    """Weights (in, out) from N(0, 1 / in), float64."""
    generator = np.random.default_rng(seed)
    shapes = {"fc1": (PIXELS, HIDDEN), "fc2": (HIDDEN, HIDDEN), "fc3": (HIDDEN, CLASSES)}
    return {name: generator.normal(size=shape) / np.sqrt(shape[0]) for name, shape in shapes.items()}


class MLP(nn.Module):
    """64 → 128 → 128 → 10, with a norm after the first layer. Its only dtype argument is that of its weights."""

    def __init__(self, precision: Precision) -> None:
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, HIDDEN, dtype=precision.weights)
        self.norm = nn.LayerNorm(HIDDEN, dtype=precision.weights)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN, dtype=precision.weights)
        self.fc3 = nn.Linear(HIDDEN, CLASSES, dtype=precision.weights)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.fc1(images)))
        x = torch.relu(self.fc2(x))
        return self.fc3(x)


def build(precision: Precision, seed: int = 0) -> MLP:
    """The model, its weights drawn in float64 and rounded to what they are kept in; its biases are 0."""
    model = MLP(precision)
    with torch.no_grad():
        for name, array in init_weights(seed).items():
            weight, bias = model.get_submodule(name).parameters()
            weight.copy_(torch.from_numpy(array.T))  # (out, in) (W1)
            bias.zero_()
    return model


# %% What is in which dtype


def dtypes() -> dict[str, str]:
    """What comes out of what, in mixed precision. Autocast decides by a list, and each device has its own.

    On a CPU softmax, layer norms and sums are not in it: they compute in float32 and round what they give. On a GPU
    they are in it, and give float32.
    """
    images, labels = batch = load_images()
    model = build(PRECISIONS["mixed"])
    with torch.autocast("cpu", dtype=BFLOAT16):
        logits = model(images)
        found = {
            "a weight": model.fc1.weight,
            "a layer's output": model.fc1(images),
            "a norm's output": model.norm(model.fc1(images)),
            "softmax of the logits": logits.softmax(-1),
            "sum of the logits": logits.sum(),
            "the loss as it comes": F.cross_entropy(logits, labels),
            "the loss in training": loss_fn(model, batch, PRECISIONS["mixed"]),
        }
    found["a weight's gradient"] = torch.autograd.grad(found["the loss in training"], model.fc1.weight)[0]
    return {what: str(tensor.dtype).removeprefix("torch.") for what, tensor in found.items()}


# %% Training


def loss_fn(model: MLP, batch: Batch, precision: Precision) -> Tensor:
    """The mean cross entropy, (), in the dtype of the weights.

    In mixed precision layers round their inputs, weights too, before the product: autocast does.
    """
    images, labels = batch
    with torch.autocast("cpu", precision.layers, enabled=precision.layers != precision.weights):
        logits = model(images.to(precision.weights))
        return F.cross_entropy(logits, labels)  # in autocast's list: float32, whatever the logits are


def loss_by_hand(model: MLP, batch: Batch) -> Tensor:
    """The mean cross entropy without autocast: a model of rounded weights, and logits that are cast back.

    Gradients go through the casts: they come out in float32. The norm's weights are rounded too, unlike autocast's.
    """
    images, labels = batch
    weights = {name: weight.to(BFLOAT16) for name, weight in model.named_parameters()}
    logits = functional_call(model, weights, images.to(BFLOAT16))
    return F.cross_entropy(logits.to(FLOAT32), labels)


def update(model: MLP, optimizer: Optimizer, batch: Batch, precision: Precision) -> Tensor:
    """One step on all images: the model changes in place; returns the loss before it, ()."""
    optimizer.zero_grad()
    loss = loss_fn(model, batch, precision)
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(precision: Precision, steps: int, seed: int = 0) -> tuple[np.ndarray, float]:
    """The loss before each of some steps, (steps,), and the share of fc2's weights that the last step left alone."""
    model, batch = build(precision, seed), load_images()
    optimizer = SGD(model.parameters(), lr=LEARNING_RATE)
    losses = [update(model, optimizer, batch, precision) for _ in range(steps - 1)]
    before = model.fc2.weight.detach().clone()
    losses.append(update(model, optimizer, batch, precision))
    unchanged = (model.fc2.weight == before).double().mean()
    return torch.stack(losses).double().numpy(), unchanged.item()


# %% float16, and the scale of the loss


def scaled_gradients(model: MLP, batch: Batch, precision: Precision, scale: float) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss, (), and the gradients of the scale times it, still with the scale in them."""
    loss = loss_fn(model, batch, precision)
    names, parameters = zip(*model.named_parameters(), strict=True)
    return loss.detach(), dict(zip(names, torch.autograd.grad(scale * loss, parameters), strict=True))


def lost_gradients(scale: float) -> float:
    """Of a loss that weighs little, the share of the second layer's gradients that float16 loses to 0.

    Numbers below 3e-8 are 0 in it. The scale lifts the gradients before they are rounded, and float32 takes it out
    again. bfloat16 has float32's range: there is nothing to lift.
    """
    batch, nonzero = load_images(), []
    for precision in (PRECISIONS["float32"], MIXED_FLOAT16):
        _, gradients = scaled_gradients(build(precision), batch, precision, SMALL * scale)
        nonzero.append(gradients["fc2.weight"].numpy() != 0)
    there, kept = nonzero
    return (there & ~kept).sum().item() / there.sum().item()


def scaled_update(model: MLP, optimizer: Optimizer, batch: Batch, scale: float) -> tuple[Tensor, bool, float]:
    """A step as torch.amp.GradScaler makes it, written out: the loss, whether it was made, and the next scale.

    Where a gradient is inf or nan the weights stay, and the scale is halved. GradScaler also doubles it after 2000
    steps that were made.
    """
    loss, gradients = scaled_gradients(model, batch, MIXED_FLOAT16, scale)
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name] / scale
    finite = all(gradient.isfinite().all().item() for gradient in gradients.values())
    if finite:
        optimizer.step()
    return loss, finite, scale if finite else scale / 2


def train_float16(steps: int, scale: float) -> list[tuple[float, bool, float]]:
    """Of each step the loss before it, whether it was made, and the scale that it was made with."""
    model, batch = build(MIXED_FLOAT16), load_images()
    optimizer = SGD(model.parameters(), lr=LEARNING_RATE)
    made = []
    for _ in range(steps):
        loss, finite, next_scale = scaled_update(model, optimizer, batch, scale)
        made.append((loss.item(), finite, scale))
        scale = next_scale
    return made


# %% The run


def main(steps: int = 200) -> None:
    """Show all of it, with so many updates in each precision."""
    for name, (largest, smallest, step) in formats().items():
        print(f"{name:9} up to {largest:.4g}, all digits down to {smallest:.3g}, after 1 comes 1 + {step:.3g}")
    for dtype in (FLOAT32, BFLOAT16):
        print(f"1 and 1000 times 0.003, in {torch.finfo(dtype).dtype}: {lost_updates(dtype, 0.003, 1000):.6g}")
    for how, total in sums().items():
        print(f"256 and 255 times 1, {how}: {total:g}")
    for setting, error in product_errors().items():
        print(f"float32 product, precision {setting}: off by {error:.1e}")
    for what, its_dtype in sorted(dtypes().items()):
        print(f"{what:22} {its_dtype}")
    by_hand = loss_by_hand(build(PRECISIONS["mixed"]), load_images()).item()
    print(f"mixed by hand, the loss before the first step: {by_hand:.8f}")
    runs = {name: train(precision, steps) for name, precision in PRECISIONS.items()}
    print(f"{'step':>8} " + " ".join(f"{name:>12}" for name in runs))
    for step in sorted({*range(0, steps, 50), steps - 1}):
        print(f"{step:8} " + " ".join(f"{losses[step]:12.8f}" for losses, _ in runs.values()))
    print("unmoved: " + " ".join(f"{unchanged:12.1%}" for _, unchanged in runs.values()))

    for scale in (1.0, 2.0**16):
        print(f"float16, gradients of {SMALL} · loss, scaled by {scale:g}: {lost_gradients(scale):.1%} are lost")
    for step, (loss, finite, scale) in enumerate(train_float16(6, 2.0**19)):
        print(f"float16, step {step}: loss {loss:.6f}, scale {scale:g}, {'made' if finite else 'skipped: not finite'}")


if __name__ == "__main__":
    main()
