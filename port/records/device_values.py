"""A number that may still be on a device, fetched late so that recording it does not block."""

from __future__ import annotations

from typing import Any

from port.errors import UsageError


class Pending:
    """A value that is being fetched from its device.

    Recognizes jax arrays and torch tensors by their methods, so that neither library is imported here.
    """

    def __init__(self, name: str, value: Any) -> None:
        """Start fetching ``value``; raises `UsageError` unless it is one real number (or text)."""
        size = getattr(value, "size", 1)
        if callable(size):  # torch: a method that returns the shape
            size = value.numel()
        if size != 1:
            raise UsageError(f"{name} must be one number per step, got shape {tuple(value.shape)}")
        self.name = name
        self.dtype = str(value.dtype).removeprefix("torch.") if hasattr(value, "dtype") else None
        if (self.dtype is None and not isinstance(value, str | int | float)) or "complex" in str(self.dtype):
            raise UsageError(f"{name} must be one number per step, got {value!r}")
        self._event: Any = None
        if _is_deleted(value):
            raise UsageError(f"{name} was deleted before it was recorded: its buffer was donated to a later step")
        if hasattr(value, "copy_to_host_async"):  # a jax array
            value.copy_to_host_async()
        elif hasattr(value, "is_cuda"):  # a torch tensor
            value = value.detach()
            if value.is_cuda:
                import torch

                stream = torch.cuda.current_stream(value.device)  # where the copy happens
                value = value.to("cpu", non_blocking=True)
                self._event = torch.cuda.Event()
                self._event.record(stream)
            else:
                value = value.item()  # now: the next step may change the tensor in place
        elif hasattr(value, "item"):  # numpy
            value = value.item()
        self._value = value

    def ready(self) -> bool:
        """Whether `result` would return at once."""
        if self._event is not None:
            return bool(self._event.query())
        if _is_deleted(self._value):  # jax 0.10 crashes on is_ready of such an array
            return True
        is_ready = getattr(self._value, "is_ready", None)
        return is_ready is None or bool(is_ready())

    def result(self) -> Any:
        """Return the number as a Python number; waits for the device if necessary."""
        if self._event is not None:
            self._event.synchronize()
        if not hasattr(self._value, "item"):
            return self._value
        try:
            return self._value.item()
        except RuntimeError as error:
            if not _is_deleted(self._value):  # but its computation failed
                raise
            raise UsageError(
                f"{self.name} was deleted before it was fetched ({error}): record an array that is not donated to a "
                "later step"
            ) from error


def _is_deleted(value: Any) -> bool:
    return hasattr(value, "is_deleted") and bool(value.is_deleted())
