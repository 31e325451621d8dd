"""Watch module calls, constructor calls, and switches between training and evaluation, by torch's global hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from port.scripts.observing.described import class_name, described, tensors_in
from port.scripts.observing.known_models import unwrapped
from port.scripts.observing.lines import caller, here, owner
from port.scripts.observing.session import Session, is_grad_on, replace_method


def watch_modules(session: Session) -> None:
    """Watch every module's construction, every call by the script, and every train() and eval()."""
    _watch_construction(session)
    _watch_calls(session)
    _watch_switches(session)


def _watch_construction(session: Session) -> None:
    def new(cls: type[nn.Module], *args: Any, **kwargs: Any) -> nn.Module:
        module = object.__new__(cls)
        if not session.journal.muted:
            with session.inside():
                session.models.constructed(module, args, kwargs)
                session.at_construction(module, args, kwargs)
        return module

    nn.Module.__new__ = staticmethod(new)  # type: ignore[assignment,method-assign]


def _watch_calls(session: Session) -> None:
    """Watch outermost calls; a call within another module's call belongs to that one, and is skipped."""
    outer: list[tuple[nn.Module, bool, Any]] = []

    def before(module: nn.Module, args: Any) -> None:
        is_scripts = session.is_looking and not session.is_elsewhere
        if is_scripts:
            session.is_recording = True
            session.move()
            with session.inside():
                session.statistics.before_call(module, session.computations.count + 1)
                session.before_call(module)
        outer.append((module, is_scripts, here() if is_scripts else None))
        session.hidden += 1

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        # A call that raised an error has left its entry on the stack, above this module's.
        while outer:
            found, is_scripts, where = outer.pop()
            session.hidden -= 1
            if found is module:
                break
        else:
            return
        if is_scripts and not session.journal.muted and output is not None:
            with session.inside():
                _note(session, module, args, kwargs, output, where)

    register_module_forward_pre_hook(before)
    register_module_forward_hook(after, with_kwargs=True, always_call=True)


def _note(session: Session, module: nn.Module, args: Any, kwargs: Any, output: Any, where: Any) -> None:
    root, path = session.models.place(module)
    name = f"{root}.{path}" if path else root
    has_parameters = any(True for _ in module.parameters())
    details = {
        "class": class_name(unwrapped(module)),
        "training": module.training,
        "grad": is_grad_on(),
        "has_parameters": has_parameters,
    }
    if has_parameters:
        session.arrays.take_inputs(session.iteration, session.computations.count + 1, name, (args, kwargs))
    call = session.computations.note(name, "module", args, kwargs, output, where, **details)
    session.tell(
        "call",
        where=where,
        moves=False,
        name=name,
        number=call.number,
        arguments=call.arguments,
        outputs=described(output),
        **details,
        given=[path for path, _ in tensors_in((args, kwargs))],
    )


def _watch_switches(session: Session) -> None:
    def around(method: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def switched(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
                frame = caller()
                if session.is_looking and frame is not None and owner(frame.f_code.co_filename) != "torch":
                    session.is_recording = True
                    with session.inside():
                        mode = method == "train" and bool(args[0] if args else kwargs.get("mode", True))
                        session.tell("switch", name=session.models.name(self), training=mode)
                return original(self, *args, **kwargs)

            return switched

        return wrap

    for method in ("train", "eval"):
        replace_method(nn.Module, method, around(method))
