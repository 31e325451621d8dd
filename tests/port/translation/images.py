"""Samples of operators as samples of images, and the operators between two convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

SHAPE = (2, 3, 4, 5)


@dataclass
class Sample:
    """A call of an operator, as torch's own samples have it."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Between(torch.nn.Module):
    """A convolution before an operator, which makes the images that it takes, and one behind it."""

    def __init__(self, call: Any, samples: list[Sample]) -> None:
        super().__init__()
        self.call = call
        self.samples = []
        self.given: tuple[torch.Tensor, ...] = ()
        self.before = torch.nn.Conv2d(SHAPE[1], SHAPE[1], 1).double()
        self.behind = torch.nn.ModuleList()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            self.before.weight.copy_(torch.rand(self.before.weight.shape, generator=generator) / 3)
            self.before.bias.fill_(0.1)
        for sample in samples:
            leaves, tree = pytree.tree_flatten((sample.input, list(sample.args), dict(sample.kwargs)))
            self.given += tuple(leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor))
            self.samples.append(([None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves], tree))
            for result in _tensors(call(sample.input, *sample.args, **sample.kwargs)):
                if _is_image(result):
                    channels = result.shape[1]
                    self.behind.append(torch.nn.Conv2d(channels, 2, 1).double())
                    with torch.no_grad():
                        self.behind[-1].weight.copy_(torch.rand(2, channels, 1, 1, generator=generator))

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        results: list[torch.Tensor] = []
        given = iter(tensors)
        number = 0
        for leaves, tree in self.samples:
            filled = [next(given) if leaf is None else leaf[0] for leaf in leaves]
            filled = [self.before(leaf) if _is_given(leaf) else leaf for leaf in filled]
            first, more, named = pytree.tree_unflatten(filled, tree)
            for result in _tensors(self.call(first, *more, **named)):
                if _is_image(result):
                    results.append(self.behind[number](result))
                    number += 1
                else:
                    results.append(result)
        return results


def _tensors(made: Any) -> list[torch.Tensor]:
    return [result for result in pytree.tree_leaves(made) if isinstance(result, torch.Tensor)]


def _is_image(x: Any) -> bool:
    return x.ndim == 4 and x.dtype == torch.float64 and x.shape[1] > 0


def _is_given(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and tuple(x.shape) == SHAPE and x.dtype == torch.float64


def of_images(call: Any, samples: list[Any]) -> list[Sample]:
    """Samples with images in the place of the first tensor and of what has its shape; those that torch takes."""
    found: list[Sample] = []
    generator = torch.Generator().manual_seed(1)
    for sample in samples:
        shape = getattr(sample.input, "shape", None)
        if shape is None or sample.input.dtype != torch.float64:
            continue

        def image(leaf: Any, shape: Any = shape) -> Any:
            alike = isinstance(leaf, torch.Tensor) and leaf.shape == shape and leaf.dtype == torch.float64
            return torch.rand(SHAPE, generator=generator, dtype=torch.float64) if alike else leaf

        input, args, kwargs = pytree.tree_map(image, (sample.input, tuple(sample.args), dict(sample.kwargs)))
        made = Sample(input, args, kwargs)
        try:
            with torch.no_grad():
                module = Between(call, [made])
                results = module(*module.given)
        except Exception:
            continue  # it takes no images, or none with these arguments
        floats = [result for result in results if result.is_floating_point()]
        if results and all(result.isfinite().all() for result in floats):
            found.append(made)
    return found
