"""Tensors that are made one ahead: in order, no further than one, and a large one only when its turn comes."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

from port.errors import BrokenWeights
from port.weights import ahead
from port.weights.ahead import made_ahead
from port.weights.tensors import Tensor

SHAPE = (1000,)
NBYTES = 8000


class Makes:
    """Tensors that note when they are made, and whether they are still there."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.threads: set[threading.Thread] = set()
        self.arrays: dict[int, weakref.ref[np.ndarray]] = {}
        self.most = 0
        self.changed = threading.Condition()

    def tensor(self, number: int, source_nbytes: int = 0) -> Tensor:
        def make() -> np.ndarray:
            with self.changed:
                self.most = max(self.most, sum(array() is not None for array in self.arrays.values()))
                array = np.full(SHAPE, float(number))
                self.arrays[number] = weakref.ref(array)
                self.made.append(number)
                self.threads.add(threading.current_thread())
                self.changed.notify_all()
                return array

        return Tensor(str(number), SHAPE, np.dtype(np.float64), make, source_nbytes)

    def wait_for(self, number: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: number in self.made, 10)


def test_the_next_is_made_while_one_is_in_use_and_no_other() -> None:
    makes = Makes()
    with made_ahead([makes.tensor(number) for number in range(5)]) as tensors:
        assert makes.made == []
        for number, tensor in enumerate(tensors):
            assert (tensor.array() == number).all()
            if number < 4:
                assert makes.wait_for(number + 1)
            assert makes.made == list(range(min(number + 2, 5)))
    assert makes.most <= 2
    assert len(makes.threads) == 1
    assert makes.threads != {threading.current_thread()}


@pytest.mark.parametrize("by", ["its own size", "what it is made of"])
def test_a_large_one_is_made_when_it_is_read_and_the_one_before_is_gone(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "AHEAD", NBYTES - 1 if by == "its own size" else NBYTES)
    makes = Makes()
    source_nbytes = 0 if by == "its own size" else NBYTES + 1
    with made_ahead([makes.tensor(number, source_nbytes) for number in range(4)]) as tensors:
        for number, tensor in enumerate(tensors):
            assert (tensor.array() == number).all()
            assert makes.made == list(range(number + 1))
    assert makes.most == 0


def test_an_error_comes_where_the_tensor_is_read() -> None:
    def fail() -> np.ndarray:
        raise BrokenWeights("pulled")

    makes = Makes()
    broken = Tensor("broken", SHAPE, np.dtype(np.float64), fail)
    with made_ahead([makes.tensor(0), broken, makes.tensor(2)]) as tensors:
        tensors[0].array()
        with pytest.raises(BrokenWeights, match="pulled"):
            tensors[1].array()
    assert makes.made == [0]


def test_it_ends_with_the_block_whatever_is_under_way() -> None:
    """As when the disk is full, or a person presses Ctrl-C."""
    makes = Makes()
    with pytest.raises(KeyboardInterrupt), made_ahead([makes.tensor(number) for number in range(9)]) as tensors:
        tensors[0].array()
        raise KeyboardInterrupt
    assert not any(thread.is_alive() for thread in makes.threads)
    assert makes.made in ([0], [0, 1])
