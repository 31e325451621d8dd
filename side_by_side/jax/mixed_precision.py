"""Mixed precision: bfloat16 products over float32 weights, by dtype= in Flax. It runs alone, in seconds, on a CPU:

    python -m side_by_side.jax.mixed_precision

Its twin, with autocast, begins with the same weights and prints the same tables, but for rounding:

    port diff mixed_precision
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

PIXELS, HIDDEN, CLASSES = 64, 128, 10
IMAGES = 256
LEARNING_RATE = 0.1
FLOAT32, BFLOAT16, FLOAT16 = jnp.dtype("float32"), jnp.dtype("bfloat16"), jnp.dtype("float16")
Batch = tuple[jax.Array, jax.Array]
SMALL = 1e-4  # what a term of a loss may weigh, beside others


class Precision(NamedTuple):
    """In which dtype the weights are kept, and in which one layers compute."""

    weights: jnp.dtype
    layers: jnp.dtype


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
    infos = [jnp.finfo(dtype) for dtype in (FLOAT32, BFLOAT16, FLOAT16)]
    return {info.dtype.name: (float(info.max), float(info.smallest_normal), float(info.eps)) for info in infos}


def lost_updates(dtype: jnp.dtype, update: float, steps: int) -> float:
    """What becomes of a weight of 1 that gets the same update again and again.

    Between 1 and 2 bfloat16's numbers are 2⁻⁷ apart. Less than half of that is rounded away, every time.
    """
    weight = jnp.ones((), dtype=dtype)
    for _ in range(steps):
        weight = weight + jnp.asarray(update, dtype=dtype)
    return weight.item()


# %% What a product adds up in


def sums() -> dict[str, float]:
    """256 + 1 + 1 + …, which is 511, in three ways: bfloat16 has no number between 256 and 258."""
    numbers = [256.0] + 255 * [1.0]
    row = jnp.array(numbers, dtype=BFLOAT16)
    ones = jnp.ones(256, dtype=BFLOAT16)
    one_by_one = jnp.zeros((), dtype=BFLOAT16)
    for number in numbers:
        one_by_one = one_by_one + number
    # A product of two bfloat16s is exact in float32. Where the sum is to stay there, JAX has preferred_element_type=,
    # everywhere.
    return {
        "bfloat16, number by number": one_by_one.item(),
        "a product: sums in float32, rounds once": (row @ ones).item(),
        "a product that stays in float32": jnp.matmul(row, ones, preferred_element_type=FLOAT32).item(),
    }


def product_errors() -> dict[str, float]:
    """The largest error of a product of float32 matrices at each setting, of the largest number in it.

    XLA on a CPU heeds no setting; on a TPU the default is "bfloat16", on a GPU "tensorfloat32" (G6).
    """
    left, right = np.random.default_rng(0).normal(size=(2, 256, 256)).astype(np.float32)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    errors = {}
    for setting in ("highest", "tensorfloat32", "bfloat16"):
        with jax.default_matmul_precision(setting):
            product = jnp.asarray(left) @ jnp.asarray(right)
        errors[setting] = (np.abs(np.asarray(product) - exact) / np.abs(exact).max()).max().item()
    return errors


# %% The same images, and a model of the same weights


def load_images() -> Batch:
    """Handwritten digits that come inside scikit-learn: images (N, 64) in [0, 1], float32, and labels (N,)."""
    images, labels = load_digits(return_X_y=True)
    return jnp.asarray(images[:IMAGES].astype(np.float32) / 16), jnp.asarray(labels[:IMAGES])


def init_weights(seed: int) -> dict[str, np.ndarray]:
    """Weights (in, out) from N(0, 1 / in), float64."""
    generator = np.random.default_rng(seed)
    shapes = {"fc1": (PIXELS, HIDDEN), "fc2": (HIDDEN, HIDDEN), "fc3": (HIDDEN, CLASSES)}
    return {name: generator.normal(size=shape) / np.sqrt(shape[0]) for name, shape in shapes.items()}


class MLP(nnx.Module):
    """64 → 128 → 128 → 10, with a norm after the first layer. Each layer has both dtypes as arguments.

    Without dtype= a layer takes the wider one of its input's and its weights': float32, and nothing is mixed.
    """

    def __init__(self, precision: Precision) -> None:
        options: Any = {"dtype": precision.layers, "param_dtype": precision.weights, "rngs": nnx.Rngs(0)}
        self.fc1 = nnx.Linear(PIXELS, HIDDEN, **options)
        self.norm = nnx.LayerNorm(HIDDEN, epsilon=1e-5, use_fast_variance=False, **options)  # W10, W11
        self.fc2 = nnx.Linear(HIDDEN, HIDDEN, **options)
        self.fc3 = nnx.Linear(HIDDEN, CLASSES, **options)

    def __call__(self, images: jax.Array) -> jax.Array:
        x = jax.nn.relu(self.norm(self.fc1(images)))
        x = jax.nn.relu(self.fc2(x))
        return self.fc3(x)


def build(precision: Precision, seed: int = 0) -> MLP:
    """The model, its weights drawn in float64 and rounded to what they are kept in; its biases are 0."""
    model = MLP(precision)
    for name, array in init_weights(seed).items():
        getattr(model, name).kernel[...] = jnp.asarray(array, precision.weights)  # (in, out) (W1)
    return model


# %% What is in which dtype


def dtypes() -> dict[str, str]:
    """What comes out of what, in mixed precision. There is no list: what goes in decides, and what the code says.

    Norms and sums compute in float32 and round what they give. Of softmax only the sum does: of logits up to 8 it is
    off by 4%, torch's by 0.4%. So it is given float32s. eval_shape computes nothing: it traces.
    """
    images, labels = batch = load_images()

    def results(model: MLP) -> dict[str, Any]:
        logits = model(images)
        found = {
            "a weight": model.fc1.kernel[...],
            "a layer's output": model.fc1(images),
            "a norm's output": model.norm(model.fc1(images)),
            "softmax of the logits": jax.nn.softmax(logits),
            "sum of the logits": logits.sum(),
            "the loss as it comes": optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(),
            "the loss in training": loss_fn(model, batch, PRECISIONS["mixed"]),
        }
        gradients = nnx.grad(loss_fn)(model, batch, PRECISIONS["mixed"])
        return found | {"a weight's gradient": gradients.fc1.kernel[...]}

    return {what: array.dtype.name for what, array in nnx.eval_shape(results, build(PRECISIONS["mixed"])).items()}


# %% Training


def loss_fn(model: MLP, batch: Batch, precision: Precision) -> jax.Array:
    """The mean cross entropy, (), in the dtype of the weights.

    In mixed precision layers round their inputs, weights too, before the product: dtype= does.
    """
    images, labels = batch
    logits = model(images.astype(precision.weights))
    logits = logits.astype(precision.weights)  # nobody else says so: a loss of bfloat16s is computed in them
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


@nnx.jit
def loss_by_hand(model: MLP, batch: Batch) -> jax.Array:
    """The mean cross entropy without dtype=: a model of rounded weights, and logits that are cast back.

    Gradients go through the casts: they come out in float32. The norm's weights are rounded too, as dtype= does. The
    library jmp calls such casts a policy.
    """
    images, labels = batch
    graphdef, weights = nnx.split(model)
    weights = jax.tree.map(lambda weight: weight.astype(BFLOAT16), weights)
    logits = nnx.merge(graphdef, weights)(images.astype(BFLOAT16))
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(FLOAT32), labels).mean()


@nnx.jit(static_argnames="precision")
def update(model: MLP, optimizer: nnx.Optimizer, batch: Batch, precision: Precision) -> jax.Array:
    """One step on all images: the model changes in place; returns the loss before it, ()."""
    loss, gradients = nnx.value_and_grad(loss_fn)(model, batch, precision)
    optimizer.update(model, gradients)
    return loss


def train(precision: Precision, steps: int, seed: int = 0) -> tuple[np.ndarray, float]:
    """The loss before each of some steps, (steps,), and the share of fc2's weights that the last step left alone."""
    model, batch = build(precision, seed), load_images()
    optimizer = nnx.Optimizer(model, optax.sgd(LEARNING_RATE), wrt=nnx.Param)
    losses = [update(model, optimizer, batch, precision) for _ in range(steps - 1)]
    before = model.fc2.kernel[...]
    losses.append(update(model, optimizer, batch, precision))
    unchanged = (model.fc2.kernel[...] == before).mean()
    return np.array(jax.device_get(losses), np.float64), unchanged.item()


# %% float16, and the scale of the loss


@nnx.jit(static_argnames="precision")
def scaled_gradients(model: MLP, batch: Batch, precision: Precision, scale: float) -> tuple[jax.Array, nnx.State]:
    """The loss, (), and the gradients of the scale times it, still with the scale in them."""
    scaled, gradients = nnx.value_and_grad(lambda model: scale * loss_fn(model, batch, precision))(model)
    return scaled / scale, gradients


def lost_gradients(scale: float) -> float:
    """Of a loss that weighs little, the share of the second layer's gradients that float16 loses to 0.

    Numbers below 3e-8 are 0 in it. The scale lifts the gradients before they are rounded, and float32 takes it out
    again. bfloat16 has float32's range: there is nothing to lift.
    """
    batch, nonzero = load_images(), []
    for precision in (PRECISIONS["float32"], MIXED_FLOAT16):
        _, gradients = scaled_gradients(build(precision), batch, precision, SMALL * scale)
        nonzero.append(np.asarray(gradients.fc2.kernel[...]) != 0)
    there, kept = nonzero
    return (there & ~kept).sum().item() / there.sum().item()


def scaled_update(model: MLP, optimizer: nnx.Optimizer, batch: Batch, scale: float) -> tuple[jax.Array, bool, float]:
    """A step as torch.amp.GradScaler makes it, written out: the loss, whether it was made, and the next scale.

    Where a gradient is inf or nan the weights stay, and the scale is halved. GradScaler also doubles it after 2000
    steps that were made; so does flax.training.dynamic_scale. Inside of jit the `if` is a jax.lax.cond.
    """
    loss, gradients = scaled_gradients(model, batch, MIXED_FLOAT16, scale)
    gradients = jax.tree.map(lambda gradient: gradient / scale, gradients)
    finite = all(jnp.isfinite(gradient).all().item() for gradient in jax.tree.leaves(gradients))
    if finite:
        optimizer.update(model, gradients)
    return loss, finite, scale if finite else scale / 2


def train_float16(steps: int, scale: float) -> list[tuple[float, bool, float]]:
    """Of each step the loss before it, whether it was made, and the scale that it was made with."""
    model, batch = build(MIXED_FLOAT16), load_images()
    optimizer = nnx.Optimizer(model, optax.sgd(LEARNING_RATE), wrt=nnx.Param)
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
        print(f"1 and 1000 times 0.003, in {jnp.finfo(dtype).dtype}: {lost_updates(dtype, 0.003, 1000):.6g}")
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
