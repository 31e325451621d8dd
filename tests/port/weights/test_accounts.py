"""What is noted of tensors while they are written, on a thread of its own."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from port.errors import WeightsMismatch
from port.weights.accounts import SMALL, Accounts
from port.weights.fingerprints import fingerprint

RANDOM = np.random.default_rng(0)
LARGE = (2 * SMALL // 8,)


def test_counts_and_fingerprints() -> None:
    accounts = Accounts(3)
    arrays = {"a": RANDOM.normal(size=LARGE), "b": RANDOM.normal(size=(5, 7)), "c": RANDOM.normal(size=LARGE)}
    arrays["a"][[3, 8]] = np.nan
    for name, array in arrays.items():
        accounts.note([(name, array)], lambda name=name, array=array: [(name, array), (f"{name}.tied", array)])
    assert accounts.nan == {"a": 2}
    assert accounts.fingerprints == {
        key: fingerprint(array) for name, array in arrays.items() for key in (name, f"{name}.tied")
    }


def test_a_large_tensor_is_looked_at_while_the_caller_goes_on() -> None:
    """The last is not: when it has been noted, all is known."""
    accounts, threads = Accounts(2), []
    may_end = threading.Event()
    array = RANDOM.normal(size=LARGE)

    def torchs() -> list[tuple[str, np.ndarray]]:
        threads.append(threading.current_thread())
        may_end.wait(10)
        return [("a", array)]

    accounts.note([("a", array)], torchs)  # or it would wait for ever
    assert accounts.fingerprints == {}
    may_end.set()
    accounts.note([("b", array)], lambda: [("b", array)])
    assert set(accounts.fingerprints) == {"a", "b"}
    assert threads != [threading.current_thread()]


@pytest.mark.parametrize("wrong", ["a", "b", "c"])
@pytest.mark.parametrize("shape", [LARGE, (3,)])
def test_what_does_not_come_back_is_an_error_before_the_end(wrong: str, shape: tuple[int, ...]) -> None:
    def check(name: str, fingerprint: str) -> None:
        if name == wrong:
            raise WeightsMismatch(f"{name} {fingerprint}")

    accounts = Accounts(3, check)
    array = RANDOM.normal(size=shape)
    with pytest.raises(WeightsMismatch, match=f"{wrong} {fingerprint(array)}"):
        for name in "abc":
            accounts.note([(name, array)], lambda name=name: [(name, array)])
    assert accounts.fingerprints == {}
