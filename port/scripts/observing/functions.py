"""Watch what the script computes between its modules: every torch function that its code calls."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from port.scripts.observing.autograd import parameters_reached
from port.scripts.observing.described import class_name, described, number_of, tensors_in
from port.scripts.observing.lines import caller, here, is_called_by_us, owner
from port.scripts.observing.session import Session, is_grad_on
from port.scripts.observing.statements import added_in

COMPOSED = ("torch/distributions/", "torch/functional.py", "torch/nn/functional.py", "torch/linalg/", "torch/fft/")
"""Torch code composed of functions that are watched one by one."""
NUMBERS = {"item", "tolist", "numpy", "__float__", "__int__", "__array__", "__index__", "__complex__"}
"""Methods by which a value leaves torch."""
NO_CALLS = {"__bool__", "__len__", "__repr__", "__format__", "__hash__", "__contains__", "__iter__", "register_hook"}
META = {"requires_grad_", "retain_grad", "share_memory_", "rename_"}
"""Names that look like in-place functions, but write nothing."""
ADDS = {"__iadd__": 1, "add_": 1, "__radd__": 0, "add": 0}
"""The methods that ``total += x`` calls for a tensor and for a number, with the index of the argument that is added."""
IN_PLACE = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__"}
BACKWARD = {"torch.Tensor.backward", "torch.autograd.backward"}


class Functions(TorchFunctionMode):
    """Watches every torch function, including operators and tensor methods."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._updated_by_hand = False  # since the last backward

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call it, and record its inputs and outputs."""
        kwargs = kwargs or {}
        session = self._session
        if not session.is_looking or is_called_by_us():
            return func(*args, **kwargs)
        name = name_of_function(func)
        if name in BACKWARD:
            return self._backward(func, args, kwargs)
        if name.startswith("torch.nn.init."):
            return self._initialised(func, name, args, kwargs)
        method = name.rpartition(".")[2]
        if not session.is_recording or not _is_scripts() or (method in NO_CALLS and method != "register_hook"):
            return func(*args, **kwargs)
        if method == "register_hook":
            session.tell("gradient hook", hook=described(args[1]) if len(args) > 1 else None)
            return func(*args, **kwargs)
        if method in NUMBERS:
            return self._leaves(func, args, kwargs)
        if method == "__set__":
            return self._set(func, name, args, kwargs)
        session.move()
        if method in ADDS and not is_grad_on():
            self._added(method, args)
        result = func(*args, **kwargs)
        if method == "__get__":
            self._got(name, args[0], result)
        else:
            self._computed(name, args, kwargs, result)
        return result

    def _computed(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        computations = self._session.computations
        written = _written(name, args, kwargs)
        parameter = computations.parameter(written) if written is not None else None
        if parameter is not None:
            self._wrote(name, parameter, args, kwargs)
        elif name == "torch.Tensor.detach" and computations.parameter(args[0]) is not None:
            computations.follow(result, args[0])
        elif written is not None or tensors_in(result):
            gave = written if name.endswith("__setitem__") else result
            computations.note(name, "function", args, kwargs, gave, here(), grad=is_grad_on())

    def _got(self, name: str, of: Any, result: Any) -> None:
        """Handle attribute access: a tensor's data counts as the tensor, its gradient as a separate value."""
        computations = self._session.computations
        if name == "torch.Tensor.data.__get__":
            computations.follow(result, of)
        elif name == "torch.Tensor.grad.__get__" and isinstance(result, torch.Tensor):
            parameter = computations.parameter(of)
            if parameter is not None:
                computations.name(result, {"gradient": parameter})

    def _backward(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        session = self._session
        self._updated_by_hand = False
        session.move()
        session.models.report_all()
        losses = [tensor for _, tensor in tensors_in((args[:1], kwargs.get("tensors")))]
        calls, what = session.computations.path_to(losses[0]) if losses else ([], None)
        session.arrays.take_weights(session.statistics.before(call.number for call in calls))
        session.tell(
            "backward",
            loss=number_of(losses[0]) if losses else None,
            tensor=what,
            path=[call.as_data() for call in calls],
            reaches=any(name for loss in losses for name in parameters_reached(loss, session.models)),
        )
        with session.inside():
            if losses:
                session.at_backward(calls, losses[0])
            session.statistics.end()
            return func(*args, **kwargs)

    def _initialised(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _is_scripts() and (where := here()) is not None:
            self._session.tell("initialised", where=where, function=name, arguments=described(args[1:]))
        with self._session.inside():
            return func(*args, **kwargs)

    def _leaves(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        session = self._session
        calls, what = session.computations.path_to(args[0])
        session.at_number(calls, what, number_of(result))
        parameter = session.computations.parameter(args[0])
        path = [call.as_data() for call in calls] if parameter is None and not is_grad_on() else []
        session.tell("number", value=number_of(result), parameter=parameter, grad=is_grad_on(), path=path)
        return result

    def _added(self, method: str, args: tuple[Any, ...]) -> None:
        """Handle ``total += x``: a sum kept within torch."""
        added = args[ADDS[method]] if len(args) == 2 else None
        is_first = method in ("__radd__", "add")  # with a number on the left, this is the first term
        if not isinstance(added, torch.Tensor) or added.ndim or (is_first and isinstance(args[1], torch.Tensor)):
            return
        session, where = self._session, here()
        value = added_in(where["text"]) if where is not None else None
        if where is not None and value is not None:
            with session.inside():
                calls, what = session.computations.path_to(added)
                session.at_sum(calls, what, number_of(added), {**where, "text": value})

    def _set(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        attribute = name.split(".")[-2]
        parameter = self._session.computations.parameter(args[0])
        if parameter is not None and attribute == "data":
            self._wrote("torch.Tensor.data =", parameter, args, kwargs)
        elif parameter is not None and attribute == "grad" and args[1] is None:
            self._session.tell("zero_grad", by_hand=True, of=parameter.partition(".")[0])
        return func(*args, **kwargs)

    def _wrote(self, name: str, parameter: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle a parameter written by the script itself: a custom optimizer, an average, a clamp."""
        session = self._session
        tensors = [tensor for _, tensor in tensors_in((args[1:], kwargs))]
        is_update = any(session.computations.is_of_gradient(tensor) for tensor in tensors)
        if is_update and not self._updated_by_hand:
            self._updated_by_hand = True
            rate = self._rate_of(name, parameter, tensors, kwargs)
            session.tell("update", by_hand=True, function=name, parameter=parameter, rate=rate)
            session.updated()
        if not is_update:
            sources = sorted({of for tensor in tensors if (of := session.computations.parameter(tensor)) is not None})
            arguments = described(args[1:]), {key: described(value) for key, value in kwargs.items()}
            session.tell("written", function=name, parameter=parameter, sources=sources, arguments=arguments)

    def _rate_of(self, name: str, parameter: str, tensors: list[torch.Tensor], kwargs: dict[str, Any]) -> float | None:
        """The rate of gradient descent: ``p.add_(p.grad, alpha=-rate)``; None for anything else."""
        sign = {"torch.Tensor.add_": -1.0, "torch.Tensor.sub_": 1.0}.get(name)
        alpha = kwargs.get("alpha")
        is_its_own = len(tensors) == 1 and self._session.computations.gradient_of(tensors[0]) == parameter
        return sign * alpha if sign and is_its_own and isinstance(alpha, int | float) else None


def watch_autograd_functions(session: Session) -> None:
    """Watch calls of the script's torch.autograd.Function subclasses, which are not torch functions."""
    found = vars(torch.autograd.Function)["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        original = found.__get__(None, cls)
        if not (session.is_looking and session.is_recording and _is_scripts()):
            return original(*args, **kwargs)
        with session.inside():
            result = original(*args, **kwargs)
        session.computations.note(f"{class_name(cls)}.apply", "function", args, kwargs, result, here())
        return result

    torch.autograd.Function.apply = classmethod(apply)  # type: ignore[assignment]


@cache
def name_of_function(function: Any) -> str:
    """A function's full name as usually written: "torch.nn.functional.nll_loss", "torch.Tensor.add_"."""
    name = resolve_name(function)
    if name is None:
        home = getattr(function, "__module__", None) or "torch"
        name = f"{home}.{getattr(function, '__name__', function)}"
    return name.replace("torch._C._nn.", "torch.nn.functional.")


def _is_scripts() -> bool:
    """Whether the caller is the script's code or a package that it uses, not torch."""
    frame = caller()
    if frame is None:
        return False
    file = frame.f_code.co_filename
    whose = owner(file)
    return whose == "user" or (whose == "library" and not file.startswith("<")) or any(one in file for one in COMPOSED)


def _written(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """The tensor that a function writes into, if any."""
    if isinstance(out := kwargs.get("out"), torch.Tensor):
        return out
    method = name.rpartition(".")[2]
    is_in_place = method in IN_PLACE or (method.endswith("_") and not method.endswith("__") and method not in META)
    if not args or not is_in_place:
        return None
    first = args[0][0] if isinstance(args[0], list | tuple) and args[0] else args[0]  # a list: torch._foreach_…
    return first if isinstance(first, torch.Tensor) else None
