"""A user's own model in Flax, trained by our trainer. Alone, to see its inputs and outputs:

    python -m side_by_side.jax.own

It takes floating images in [0, 1], channels last, (N, H, W, C), and gives logits, (N, classes). One that
`port translate` has written may take another order of axes; its weights' file says which.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import new_class
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.data import dataset_info
from port.errors import UsageError
from port.named import advice, arguments
from port.nn import DropoutMasks, shared_masks
from port.nn.shared_stream import without_streams
from port.weights.safetensors_files import open_safetensors
from side_by_side.config import Config
from side_by_side.jax.model import scaled
from side_by_side.own import beside, cannot_take, check_result, found

# %% Images as it takes them


class OnImages:
    """Put before a model's own class: takes uint8 images, the step's masks and what is real, as our own models do."""

    image_dtype: Any
    image_axes: tuple[int, ...]

    def __call__(self: Any, images: jax.Array, masks: DropoutMasks, real: jax.Array | None = None) -> Any:
        x = scaled(images, self.image_dtype).transpose(self.image_axes)  # from (N, H, W, C)
        with shared_masks(self, masks):
            return super().__call__(x)  # type: ignore[misc]


# %% Built


def mapping_beside(config: Config) -> Path | None:
    """NAME.mapping.toml next to NAME.py, with the mapping from the original; None if there is none."""
    return beside(config.jax_model, ".mapping.toml")


def _axes(config: Config) -> tuple[int, ...]:
    """The axis order from (N, H, W, C) to the model's input."""
    path = beside(config.jax_model, ".safetensors")
    order = [0, 2, 3, 1]
    if path is not None:
        with open_safetensors(path) as weights:
            record = json.loads(dict(weights.metadata).get("port.translation", "{}"))
        order = record.get("inputs", [order])[0]
    return tuple([0, 2, 3, 1].index(axis) for axis in order)


def build_own(config: Config, param_dtype: Any = jnp.float32) -> nnx.Module:
    """The user's model with weights that its own code draws.

    Raises:
        UsageError: it cannot be found or built, or does not fit the dataset.
    """
    assert config.jax_model is not None
    cls = found(config.jax_model, "--jax-model")
    if not isinstance(cls, type) or not issubclass(cls, nnx.Module):
        raise UsageError(f"--jax-model: {config.jax_model} is not a flax.nnx.Module class")
    kwargs = arguments(config.jax_kwargs, "--jax-kwargs")
    common = {"rngs": nnx.Rngs(config.seed), "param_dtype": param_dtype}
    taken = inspect.signature(cls.__init__).parameters
    body = {"__module__": cls.__module__, "image_dtype": param_dtype, "image_axes": _axes(config)}
    try:
        on_images: Any = new_class(cls.__name__, (OnImages, cls), exec_body=lambda names: names.update(body))
        model = on_images(**{name: common[name] for name in common if name in taken}, **kwargs)
    except Exception as error:
        so = f"with {config.jax_kwargs}" if kwargs else "without arguments"
        raise UsageError(
            f"--jax-model: {config.jax_model} cannot be built {so}: {error}\n{advice(cls, '--jax-kwargs')}"
        ) from error
    without_streams(model)  # all that it draws comes from the step's key
    _check_fit(config, model)
    return model


def _check_fit(config: Config, model: nnx.Module) -> None:
    assert config.jax_model is not None
    _widen(model)
    info = dataset_info(config.dataset)
    images = jnp.zeros((2, *info.image_shape), jnp.uint8)
    model.eval()
    graphdef, state = nnx.split(model)
    try:
        logits = jax.eval_shape(lambda s, x: nnx.merge(graphdef, s)(x, DropoutMasks(jax.random.key(0))), state, images)
    except Exception as error:
        raise cannot_take(error, "--jax-model", config.jax_model, images.shape, config.dataset) from error
    model.train()
    shape = logits.shape if hasattr(logits, "shape") else type(logits).__qualname__
    check_result(shape, info.classes, "--jax-model", config.jax_model)


def _widen(model: Any) -> None:
    """Buffers that ``param_dtype`` does not reach, as ``module.to(dtype)`` of torch reaches them."""
    flat = nnx.to_flat_state(nnx.state(model, nnx.Not(nnx.RngState)))
    other = [(path, v) for path, v in flat if jnp.issubdtype(v.dtype, jnp.floating) and v.dtype != model.image_dtype]
    nnx.update(model, nnx.from_flat_state([(path, v[...].astype(model.image_dtype)) for path, v in other]))


# %% Inputs and outputs


def main() -> None:
    """The script's model on two images of zeros."""
    config = Config(torch_model="side_by_side.pytorch.own:Small", jax_model="side_by_side.jax.own:Small")
    model: Any = build_own(config)
    model.eval()
    logits = model(jnp.zeros((2, 8, 8, 1), jnp.uint8), DropoutMasks(jax.random.key(0)))
    count = sum(parameter.size for parameter in jax.tree.leaves(nnx.state(model, nnx.Param)))
    print(f"{type(model).__name__}: {tuple(logits.shape)}, {count} parameters")


class Small(nnx.Module):
    """One layer, as a user may write it."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(1, 10, (3, 3), padding="VALID", rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.conv(x).mean((1, 2))


if __name__ == "__main__":
    main()
