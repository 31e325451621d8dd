"""One call of a torch function in a run, and another way of doing it that Flax's side may have taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Arguments = dict[str, Any]
"""A call's arguments by name; those of a function whose names are not known, by their places, "0", "1"."""
Run = Callable[[Callable[..., Any], Arguments], Any]
"""Does an operation: of the function and the arguments that it is called with in that run."""

_CONV = "input weight bias stride padding dilation groups"
_CONV_TRANSPOSE = "input weight bias stride padding output_padding groups dilation"
_AVERAGE = "input kernel_size stride padding ceil_mode count_include_pad divisor_override"
_RECURRENT = "input hx params has_biases num_layers dropout train bidirectional batch_first"
_PACKED = "input batch_sizes hx params has_biases num_layers dropout train bidirectional"
_CELL = "input hx w_ih w_hh b_ih b_hh"
_LARGEST = "input kernel_size stride padding dilation ceil_mode return_indices"
_BUILTINS = {
    "linear": "input weight bias",
    "gelu": "input approximate",
    "conv1d": _CONV,
    "conv2d": _CONV,
    "conv3d": _CONV,
    "conv_transpose1d": _CONV_TRANSPOSE,
    "conv_transpose2d": _CONV_TRANSPOSE,
    "conv_transpose3d": _CONV_TRANSPOSE,
    "avg_pool1d": _AVERAGE,
    "avg_pool2d": _AVERAGE,
    "avg_pool3d": _AVERAGE,
    "max_pool1d": _LARGEST,
    "max_pool2d": _LARGEST,
    "max_pool3d": _LARGEST,
    "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal scale enable_gqa",
    "masked_fill": "input mask value",
    "cat": "tensors dim",
    "concat": "tensors dim",
    "flatten": "input start_dim end_dim",
    "chunk": "input chunks dim",
    "split": "input split_size dim",
    "lstm": _RECURRENT,
    "gru": _RECURRENT,
    "lstm_cell": _CELL,
    "gru_cell": _CELL,
    "_pack_padded_sequence": "input lengths batch_first",
    "_weight_norm": "v g dim",
    "clamp": "input min max",
    "mean": "input dim keepdim dtype",
    "sum": "input dim keepdim dtype",
    "var": "input dim correction keepdim",
    "std": "input dim correction keepdim",
    "amax": "input dim keepdim",
    "amin": "input dim keepdim",
    "logsumexp": "input dim keepdim",
    "argmax": "input dim keepdim",
    "argmin": "input dim keepdim",
    "topk": "input k dim largest sorted",
    "repeat_interleave": "input repeats dim",
    "cumsum": "input dim dtype",
    "stack": "tensors dim",
    "tril": "input diagonal",
    "triu": "input diagonal",
    "unbind": "input dim",
}
"""Argument names of what has no signature to read: it is not written in Python, or chosen by an argument."""
_METHODS = {"softmax": "input dim dtype", "log_softmax": "input dim dtype"}
"""Those of methods whose functions of the same name are written in Python, with other arguments."""
_SAME = {
    "__getitem__": "getitem",
    "concat": "cat",
    "true_divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "clip": "clamp",
}


_OPERATORS = {
    "radd": "add",
    "iadd": "add",
    "isub": "sub",
    "rmul": "mul",
    "imul": "mul",
    "truediv": "div",
    "itruediv": "div",
    "rtruediv": "rdiv",
    "ipow": "pow",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
}
"""What an operator's function is called, by the names that it has without its underscores."""


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "numel")


@dataclass(frozen=True)
class TorchOperation:
    """One call of a torch function in a run.

    Attributes:
        number: which of the run's calls it is.
        name: the function's, without the underscore of those that work in place.
        arguments: what it was called with.
        layer: the path of the module that called it.
        twin: Flax's layer for that module, where there is one.
        cites: ids of the notes that the pairs of the function and of that module cite.
        result: what it gave.
        function: what was called.
        line: where in the model's own source it is called, and what that line says; "" where that is not known.
    """

    number: int
    name: str
    arguments: Arguments
    layer: str
    twin: Any = None
    cites: tuple[str, ...] = ()
    result: Any = field(default=None, compare=False, repr=False)
    function: Any = field(default=None, compare=False, repr=False)
    line: str = ""

    @property
    def base(self) -> str:
        """The function's name without what says that it is an operator: "add" for ``__radd__``'s sum, "div" too."""
        name = self.name.strip("_")
        return _OPERATORS.get(name, name)

    @property
    def reads(self) -> bool:
        """Whether it only looks at a tensor, as ``x.shape`` does, and is no step of the model."""
        return self.name in ("__get__", "__set__")

    @property
    def operands(self) -> dict[str, Any]:
        """Its tensors, by the argument's name."""
        return {key: value for key, value in self.arguments.items() if _is_tensor(value)}

    @property
    def said(self) -> str:
        """Where a person finds it: behind a sentence."""
        where = f" in {self.layer}" if self.layer else ""
        return f"{where}, torch's line {self.line}" if self.line else where

    @property
    def input(self) -> Any:
        """Its first argument."""
        return next(iter(self.arguments.values()), None)


@dataclass(frozen=True)
class Way:
    """Another way of doing an operation: what Flax's side may do in its place.

    Ways of several operations that have the same kind and sentence are one explanation.

    Attributes:
        kind: the cause's stable name.
        why: what Flax's side does, in a sentence.
        run: does it.
        remedy: what to change; that of the note which names this kind where this is "".
        rank: how far-fetched it is: simpler explanations come first.
        together: of how many of a run's operations at once it may be true, beside all of them and one of them.
        cites: ids of notes to choose from, where several name this kind: those of the operation's pairs.
        where: where in torch's code that is, behind the sentence; "" where the sentence says it.
        chosen: the operations of the run in which this made the two agree, and how each was done; empty before that.
    """

    kind: str
    why: str
    run: Run
    remedy: str = ""
    rank: int = 0
    together: int = 1
    cites: tuple[str, ...] = ()
    where: str = ""
    chosen: Mapping[int, Way] = field(default_factory=dict, compare=False)


Explanation = Callable[[TorchOperation], Iterator[Way]]
"""The other ways of doing an operation that one kind of mistake gives; none where it does not apply."""


def name_of(function: Callable[..., Any]) -> str:
    """A function's name, whether it is a method, an operator or torch.nn.functional's."""
    name = getattr(function, "__name__", "")
    if not name.startswith("__"):
        name = name.rstrip("_")
    return _SAME.get(name, name)


def arguments_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
    """A call's arguments by their names."""
    name = name_of(function)
    if inspect.isfunction(function) and name not in _BUILTINS and name != "unflatten":
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return _placed(args, kwargs)
        return dict(bound.arguments)
    known = (_BUILTINS | _METHODS).get(name, "")
    # A packed sequence's sizes come where the state comes otherwise.
    names = (_PACKED if known is _RECURRENT and len(args) > 2 and not isinstance(args[2], list) else known).split()
    if len(args) > len(names):
        return _placed(args, kwargs)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _placed(args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
    return {**{str(place): value for place, value in enumerate(args)}, **kwargs}


def do(function: Callable[..., Any], arguments: Arguments) -> Any:
    """Call a function as it was called."""
    if "0" in arguments or not arguments:
        args = [value for key, value in arguments.items() if key.isdecimal()]
        return function(*args, **{key: value for key, value in arguments.items() if not key.isdecimal()})
    # The first by place: what it is called differs between a function and a method of the same name.
    first, *others = arguments.items()
    return function(first[1], **dict(others))


def having(**changed: Any) -> Run:
    """The same operation with other arguments."""
    return lambda function, arguments: do(function, {**arguments, **changed})


def of_input(change: Callable[[Any], Any]) -> Run:
    """The same operation of another input."""

    def run(function: Callable[..., Any], arguments: Arguments) -> Any:
        first = next(iter(arguments))
        return do(function, {**arguments, first: change(arguments[first])})

    return run


def together(ways: Sequence[Way]) -> Run:
    """Several ways of one operation at once: each is given what those before it make of the arguments."""

    def run(function: Callable[..., Any], arguments: Arguments) -> Any:
        inner = function
        for way in reversed(ways):
            inner = _wrapped(way, inner, next(iter(arguments)))
        return do(inner, arguments)

    return run


def _wrapped(way: Way, inner: Callable[..., Any], name: str) -> Callable[..., Any]:
    return lambda first, **others: way.run(inner, {name: first, **others})


def then(change: Callable[[Any], Any]) -> Run:
    """The same operation, and something after it."""
    return lambda function, arguments: change(do(function, arguments))


def instead(compute: Callable[[Any], Any]) -> Run:
    """Something else of the same input."""
    return lambda function, arguments: compute(next(iter(arguments.values())))
