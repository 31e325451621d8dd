"""Watch optimizers, schedulers, clipping, mixed precision and averages: what happens to the weights, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import LBFGS, Optimizer, lr_scheduler, swa_utils
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from port.scripts.observing.described import class_name, described, number_of
from port.scripts.observing.lines import caller, here, name_of, owner, user_frames
from port.scripts.observing.session import Session, noting_construction, replace_method


class Updates:
    """A session's record of the optimizers and schedulers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._constructed: Any = WeakIdKeyDictionary()
        self._constructor_arguments: Any = WeakIdKeyDictionary()
        self._names: Any = WeakIdKeyDictionary()
        self._stepping: list[bool] = []  # for each running step, whether it has a closure

    def watch(self) -> None:
        """Install the hooks, torch's if there are any."""
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        replace_method(Optimizer, "__init__", noting_construction(self._constructed))
        replace_method(Optimizer, "zero_grad", self._around_zero_grad)
        replace_method(torch.nn.Module, "zero_grad", self._around_zero_grad)
        replace_method(lr_scheduler.LRScheduler, "__init__", noting_construction(self._constructed))
        replace_method(lr_scheduler.ReduceLROnPlateau, "__init__", noting_construction(self._constructed))
        for cls in vars(lr_scheduler).values():
            is_scheduler = isinstance(cls, type) and issubclass(cls, lr_scheduler.LRScheduler)
            if is_scheduler and cls is not lr_scheduler.LRScheduler and "__init__" in vars(cls):
                replace_method(cls, "__init__", noting_construction(self._constructed, self._constructor_arguments))
            if is_scheduler and "step" in vars(cls):
                replace_method(cls, "step", self._around_schedule)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            around = self._around_clipping(name)
            replace_method(torch.nn.utils, name, around)
            replace_method(torch.nn.utils.clip_grad, name, around)
        replace_method(torch.amp.autocast_mode.autocast, "__enter__", self._around_autocast)
        for name in ("scale", "unscale_", "step", "update"):
            replace_method(torch.amp.GradScaler, name, self._around_scaler(name))
        replace_method(swa_utils.AveragedModel, "update_parameters", self._around_average)

    def constructor_arguments_of(self, scheduler: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """A scheduler's constructor arguments after its optimizer; None if the construction was not seen."""
        found: tuple[tuple[Any, ...], dict[str, Any]] | None = self._constructor_arguments.get(scheduler)
        return found

    def of(self, kind: type) -> list[Any]:
        """The optimizers, or the schedulers, that the script has made."""
        return [thing for thing in self._constructed if isinstance(thing, kind)]

    def name(self, thing: Any) -> str:
        """The script's name for an optimizer or scheduler; reports it if it is new."""
        while isinstance(thing, Optimizer) and isinstance(inner := getattr(thing, "optimizer", None), Optimizer):
            thing = inner  # a framework's wrapper has the same groups
        known = self._names.get(thing)
        if known is None:
            known = (name_of(thing, user_frames()) or type(thing).__name__).removeprefix("self.")
            taken = set(self._names.values())
            known = next(n for n in (known, *(f"{known}{i}" for i in range(2, 1000))) if n not in taken)
            self._names[thing] = known
            self._tell(thing, known)
        return str(known)

    def _tell(self, thing: Any, name: str) -> None:
        constructed = self._constructed.get(thing)
        if isinstance(thing, Optimizer):
            self._session.tell(
                "optimizer",
                moves=False,
                name=name,
                constructed=constructed,
                groups=[self._group(group) for group in thing.param_groups],
                defaults=described(thing.defaults),
                kind=class_name(thing),
            )
            return
        options = {key: value for key, value in vars(thing).items() if not key.startswith("_") and key != "optimizer"}
        inner = [self.name(one) for one in getattr(thing, "_schedulers", ())]
        optimizer = getattr(thing, "optimizer", None)
        self._session.tell(
            "scheduler",
            moves=False,
            name=name,
            constructed=constructed,
            optimizer=self.name(optimizer) if optimizer is not None else None,
            options=described(options),
            schedulers=inner,
            kind=class_name(thing),
        )

    def _group(self, group: dict[str, Any]) -> dict[str, Any]:
        names = [self._session.models.parameter_name(tensor) for tensor in group["params"]]
        trained = [tensor.requires_grad for tensor in group["params"]]
        options = {key: described(value) for key, value in group.items() if key != "params"}
        return {"options": options, "parameters": names, "trained": sum(trained)}

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        closure = next((one for one in (*args[1:], kwargs.get("closure")) if one is not None), None)
        before = None
        if closure is not None and _evaluates_once(optimizer):
            self._session.about_to_update(optimizer)
            before = _evaluated(closure, args, kwargs)
        self._begin_step(optimizer, has_closure=closure is not None and before is None)
        return before

    def _begin_step(self, optimizer: Optimizer, *, has_closure: bool) -> None:
        self._stepping.append(has_closure)
        if self._session.journal.muted:
            return
        if self._session.is_elsewhere:
            self._session.tell("elsewhere", moves=False)
            self._session.end("another thread")
        self._session.is_recording = True
        self._session.models.report_all()
        self._session.about_to_update(optimizer)
        options: list[dict[str, Any]] = [
            {key: value for key, value in group.items() if isinstance(value, bool | int | float | tuple)}
            | {key: number_of(value) for key, value in group.items() if isinstance(value, torch.Tensor)}
            for group in optimizer.param_groups
        ]
        self._session.tell(
            "update",
            name=self.name(optimizer),
            by_hand=False,
            closure=has_closure,
            groups=described(options),
            without_gradient=sum(p.grad is None for g in optimizer.param_groups for p in g["params"]),
        )
        if not has_closure:
            self._session.hidden += 1

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        has_closure = self._stepping.pop()
        if self._session.journal.muted:
            return
        if not has_closure:
            self._session.hidden -= 1
        self._session.updated(optimizer)
        self._session.tell("updated", name=self.name(optimizer), moves=False)

    def _around_zero_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def zero(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_scripts():
                is_model = isinstance(this, torch.nn.Module)
                of = self._session.models.name(this) if is_model else self.name(this)
                self._session.tell("zero_grad", of=of, by_hand=False)
            with self._session.inside():
                return original(this, *args, **kwargs)

        return zero

    def _around_schedule(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(this: Any, *args: Any, **kwargs: Any) -> Any:
            is_scripts = self._is_scripts()
            with self._session.inside():
                result = original(this, *args, **kwargs)
            if is_scripts:
                optimizer = getattr(this, "optimizer", None)
                rates = [number_of(group["lr"]) for group in optimizer.param_groups] if optimizer is not None else []
                of = self.name(optimizer) if optimizer is not None else None
                self._session.tell("schedule", name=self.name(this), optimizer=of, given=described(args), rates=rates)
            return result

        return step

    def _around_clipping(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
                parameters = parameters if isinstance(parameters, torch.Tensor) else list(parameters)
                is_scripts = self._is_scripts()
                with self._session.inside():
                    result = original(parameters, *args, **kwargs)
                if is_scripts:
                    tensors = [parameters] if isinstance(parameters, torch.Tensor) else parameters
                    names = {self._session.models.parameter_name(tensor) or "?" for tensor in tensors}
                    self._session.tell(
                        "clip",
                        function=name,
                        arguments=described(args),
                        named=described(kwargs),
                        of=sorted({one.partition(".")[0] for one in names}),
                        count=len(tensors),
                        norm=number_of(result),
                    )
                return result

            return clip

        return around

    def _around_autocast(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def enter(this: Any) -> Any:
            if self._is_scripts():
                self._session.tell(
                    "autocast", device=this.device, dtype=described(this.fast_dtype), enabled=bool(this._enabled)
                )
            return original(this)

        return enter

    def _around_scaler(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def scaled(this: Any, *args: Any, **kwargs: Any) -> Any:
                if not self._is_scripts():
                    return original(this, *args, **kwargs)
                if name == "scale":
                    return self._scaled(original, this, *args)
                scale = this.get_scale() if this.is_enabled() else 1.0
                self._session.tell("scaler", method=name, enabled=this.is_enabled(), scale=scale)
                return original(this, *args, **kwargs)

            return scaled

        return around

    def _scaled(self, original: Callable[..., Any], this: Any, outputs: Any) -> Any:
        with self._session.inside():
            result = original(this, outputs)
        # After the call: a scaler has no scale before its first.
        self._session.tell("scaler", method="scale", enabled=this.is_enabled(), scale=float(this.get_scale()))
        self._session.computations.note("torch.amp.GradScaler.scale", "function", (outputs,), {}, result, here())
        return result

    def _around_average(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(this: Any, model: Any) -> Any:
            if self._is_scripts():
                models = self._session.models
                how = described(this.avg_fn or this.multi_avg_fn)
                self._session.tell("average", name=models.name(this), of=models.name(model), how=how)
            with self._session.inside():
                return original(this, model)

        return update

    def _is_scripts(self) -> bool:
        """Whether the caller is the script, not torch."""
        frame = caller()
        is_torchs = frame is None or owner(frame.f_code.co_filename) == "torch"
        return self._session.is_looking and not is_torchs


def _evaluates_once(optimizer: Optimizer) -> bool:
    """Whether an optimizer calls its closure once, before anything else: torch's optimizers except LBFGS."""
    return type(optimizer).step.__module__.startswith("torch.optim.") and not isinstance(optimizer, LBFGS)


def _evaluated(closure: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """A step's arguments after its closure has been called, as it would itself: the loss precedes the update.

    A package's loop (Lightning's) passes its whole step as the closure.
    """
    with torch.enable_grad():
        loss = closure()
    return (args[0], lambda: loss), {key: value for key, value in kwargs.items() if key != "closure"}
