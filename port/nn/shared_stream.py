"""A whole module's draws from one step's key, in the order of its calls: torch's under `port.shared_dropout`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
from flax import nnx

from port.errors import UsageError
from port.nn.dropout import Dropping
from port.nn.rrelu import RReLU
from port.nn.shared_dropout import DropoutMasks, SharedDropout, rows_dropped


@contextmanager
def shared_masks(model: nnx.Module, masks: DropoutMasks | jax.Array) -> Iterator[None]:
    """Within it, the n-th draw of ``model``, counted from 0 in the order of the calls, has the key ``fold_in(key, n)``.

    So a module that draws from its ``rngs``, as `port.translate` writes them and as one builds them by hand, drops what
    torch's drops within ``port.shared_dropout(model, key)``, and its source stays as it is. It is used where the module
    is called, under jit and grad as well, and may wrap the call of a merged module::

        def loss_fn(params, rest, x, key):
            model = nnx.merge(graphdef, params, rest, copy=True)
            with port.nn.shared_masks(model, key):
                return loss(model(x))

    Afterwards the module has its own streams again, as they were. A layer that is given a key at its call takes that.

    Args:
        model: whose streams stand back.
        masks: the step's key, ``fold_in(key(seed), step)``; or with the rows of a whole batch that the inputs are.

    Raises:
        UsageError: with rows, something other than an nnx.Dropout draws.
    """
    stream = _SharedStream(masks if isinstance(masks, DropoutMasks) else DropoutMasks(masks))
    held = [(node, name, vars(node)[name]) for node, name in _streams(model)]
    classes = [(node, type(node)) for node in _nodes(model) if type(node) is nnx.Dropout]
    try:
        for node, name, _ in held:
            setattr(node, name, stream)
        for node, _ in classes:
            node.__class__ = _OfStream
        yield
    finally:
        for node, cls in classes:
            node.__class__ = cls
        for node, name, own in held:
            setattr(node, name, nnx.data(None) if own is None else own)


def without_streams(model: nnx.Module) -> None:
    """Take a module's random streams away, so that its state holds none: it then draws within `shared_masks` alone."""
    for node, name in list(_streams(model)):
        setattr(node, name, _NoStream())


class _SharedStream(nnx.RngStream):
    """A stream of flax's, whose n-th key is ``fold_in(key, n)``, and which knows of which rows the masks are."""

    def __init__(self, masks: DropoutMasks) -> None:
        super().__init__(masks.key, tag="dropout")
        self.rows: Any = nnx.data(None) if masks.rows is None else nnx.Variable(masks.rows)
        self.batch_size = masks.batch_size

    def __call__(self) -> jax.Array:
        if self.rows is not None:
            raise UsageError(
                "a layer that is no nnx.Dropout draws random numbers: those of a whole batch's rows are not known. "
                "Train on one device without microbatches, or replace what draws by nnx.Dropout"
            )
        return super().__call__()

    def masks(self) -> DropoutMasks:
        """The next draw's, with the key of that draw."""
        rows = None if self.rows is None else self.rows[...]
        return DropoutMasks(super().__call__(), rows, self.batch_size)


class _NoStream(nnx.RngStream):
    """Stands where a stream was."""

    def __init__(self) -> None:
        self.tag = "dropout"

    def __call__(self) -> jax.Array:
        raise UsageError("this module has no random stream of its own: call it within port.nn.shared_masks")


class _OfStream(nnx.Dropout):
    """nnx.Dropout, whose mask may be some rows of a whole batch's."""

    def __call__(self, inputs: jax.Array, **options: Any) -> jax.Array:
        stream = self.rngs
        rows = isinstance(stream, _SharedStream) and stream.rows is not None
        deterministic = options.get("deterministic", self.deterministic)
        if not rows or options.get("rngs") is not None or deterministic is not False or self.rate in (0, 1):
            return super().__call__(inputs, **options)
        masks = stream.masks()
        return rows_dropped(self, inputs, masks.key, masks)


def _nodes(model: nnx.Module) -> list[Any]:
    return [node for _, node in nnx.iter_graph(model) if isinstance(node, nnx.Pytree)]


def _streams(model: nnx.Module) -> Iterator[tuple[Any, str]]:
    """Where a module holds a random stream, or a dropout could: (holder, attribute)."""
    for node in _nodes(model):
        if isinstance(node, SharedDropout):
            continue  # it is told its masks
        draws = isinstance(node, nnx.Dropout | Dropping | RReLU)
        for name, value in list(vars(node).items()):
            if isinstance(value, nnx.RngStream) or (draws and name == "rngs" and value is None):
                yield node, name
