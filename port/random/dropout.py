"""Draws a model's dropout masks as the JAX side draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from port.errors import UsageError
from port.random.batch_part import BatchPart
from port.random.drawing_calls import SharedFunctions
from port.random.shared_draws import DrawLayout, SharedDraws
from port.random.threefry import fold_in, key


def dropout_key(seed: int, step: int, *, x64: bool = False) -> Tensor:
    """One training step's key for `shared_dropout`, ``fold_in(key(seed), step)``: shape (2,), uint32."""
    return fold_in(key(seed, x64=x64), step)


@contextmanager
def shared_dropout(
    model: nn.Module,
    key: Tensor,
    *,
    channels_last: bool = False,
    x64: bool | None = None,
    rows: Tensor | Sequence[int] | None = None,
    batch_size: int | None = None,
    layouts: Sequence[DrawLayout | tuple[Any, ...] | None] | None = None,
) -> Iterator[None]:
    """Make all dropout of ``model`` use the JAX side's masks inside this context.

    The n-th draw, counted from 0 in call order, uses the key ``fold_in(key, n)``. Modules and functions count alike:
    nn.Dropout and its variants, ``F.dropout``, ``scaled_dot_product_attention(dropout_p=…)``, the dropout inside
    MultiheadAttention, transformer and recurrent layers, alpha dropout, RReLU, stochastic depth, ``torch.bernoulli``,
    ``torch.rand`` and ``torch.randn``. In evaluation, and for dropout at the rates 0 and 1, nothing is drawn or
    counted.

    The JAX side is `port.nn.shared_masks`, for a module that `port.translate` wrote or any other whose layers take
    their keys from ``rngs``; the module needs no edits::

        with port.shared_dropout(model, port.dropout_key(seed, step, x64=True), layouts=layouts):
            loss = loss_fn(model(x))                                            # in torch
        with port.nn.shared_masks(module, fold_in(jax.random.key(seed), step)):
            loss = loss_fn(module(x))                                           # in JAX

    A hand-written module can also take the key and fold the number in itself: ``dropout(x, rngs=fold_in(key, n))``.

    Masks are drawn in the shape of the JAX side's activation. ``layouts`` gives the layout of each: ``t.draws[True]``
    of a translation t, or `port.translation.draw_layouts` of the weights file that it wrote. Without it, dropouts of
    whole channels draw one number a channel, (N, 1, …, 1, C): in JAX set ``broadcast_dims=`` to the spatial axes. Other
    dropouts draw the input's shape; under ``channels_last`` they read every input of three or more dimensions as
    (N, C, *spatial) and draw (N, *spatial, C). After a flatten, elements are in CHW order here, whatever the JAX side's
    order is. ``x64`` says whether the JAX side runs with x64; None means: if the input is float64.

    A replica or a microbatch sees n samples of a whole batch of ``batch_size``, at the positions ``rows``, (n,), from
    0. Its masks are those rows of the whole batch's masks, and only they are kept: with the step's key, all replicas
    together drop what one device drops with the whole batch. Inputs have the samples along their first dimension. The
    JAX side is then `port.nn.SharedDropout`, or `port.nn.shared_masks` of `port.nn.DropoutMasks`.

    PyTorch's generator is not touched. A compiled model runs uncompiled.

    Raises:
        UsageError: something draws in a way that jax does not (``torch.randint``, packed sequences, fused kernels …),
            with its line and a remedy; a draw within a loop of the translated module; a draw under activation
            checkpointing, whose second forward would draw other masks; fewer draws than layouts; only one of rows and
            batch_size, rows that are not positions in the batch, an input with another number of samples or without a
            batch dimension.
    """
    draws = SharedDraws(key, BatchPart.of(rows, batch_size), x64, layouts)
    before = _generators()
    with ExitStack() as entered:
        if layouts:
            watch_own_layouts(model, lambda: draws, entered)
        entered.enter_context(SharedFunctions(draws, channels_last))
        entered.enter_context(_uncompiled())
        yield
    draws.check_complete()
    if any(not torch.equal(a, b) for a, b in zip(before, _generators(), strict=True)):
        raise UsageError(
            "something within shared_dropout drew from PyTorch's own generator, where torch's functions cannot be seen "
            "(an operator written in C++, torch.manual_seed): the two sides do not share those numbers. Draw or seed "
            "before the context"
        )


_OWN_LAYOUT = (nn.MultiheadAttention, nn.RNNBase, nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder)
_OWN_LAYOUT += (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)  # type: ignore[assignment]


def drops_within_layers(model: nn.Module) -> bool:
    """Whether a layer that draws in torch's layout has dropout inside: its draws are in no translation's ``draws``."""
    layers = [one for one in model.modules() if isinstance(one, _OWN_LAYOUT)]
    rates = [getattr(one, name, 0) for layer in layers for one in layer.modules() for name in ("p", "dropout")]
    return any(isinstance(rate, float | int) and rate > 0 for rate in rates)


def watch_own_layouts(model: nn.Module, draws: Callable[[], SharedDraws], entered: ExitStack) -> None:
    """Mark the draws made inside layers whose twin draws in torch's layout, which the layouts do not list.

    Args:
        model: the model with these layers.
        draws: the draws of the step.
        entered: the exit stack that removes the hooks.
    """
    layers = [one for one in model.modules() if isinstance(one, _OWN_LAYOUT)]
    # A user's subclass of a torch layer draws as its own forward is written, if it defines one.
    own = {id(one) for one in layers if type(one).forward.__module__.startswith("torch.nn.modules.")}

    def enter(module: nn.Module, args: Any) -> None:
        draws().within_layers += id(module) in own

    def leave(module: nn.Module, args: Any, result: Any) -> None:
        draws().within_layers -= id(module) in own

    if own:  # hooks of all modules: a copy of the model that is made inside the context has none
        modules = nn.modules.module
        entered.callback(modules.register_module_forward_pre_hook(enter).remove)
        entered.callback(modules.register_module_forward_hook(leave, always_call=True).remove)


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Make torch.compile run its modules uncompiled: a compiled module would keep the masks that it was traced with."""
    from torch.compiler import set_stance

    with set_stance("force_eager"):
        yield


def _generators() -> list[Tensor]:
    """The states of the generators that a model draws from."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states.append(torch.cuda.get_rng_state())
    return states
