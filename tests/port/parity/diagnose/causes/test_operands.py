"""Another tensor than torch takes: in one use of several, in all of them, in a list."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from port.parity.diagnose.causes.operands import in_one_use, others, replaced
from port.parity.diagnose.causes.operation import TorchOperation, Way, do, having, instead

X = torch.arange(6.0)
SQUARE = TorchOperation(0, "square", {"input": X}, "", result=X**2, function=torch.square)
COSINE = TorchOperation(1, "cos", {"input": SQUARE.result}, "", result=SQUARE.result.cos(), function=torch.cos)
SUM = TorchOperation(
    2, "add", {"input": SQUARE.result, "other": COSINE.result}, "", result=SQUARE.result + X, function=torch.add
)
JOINED = TorchOperation(3, "cat", {"tensors": [SQUARE.result, COSINE.result]}, "", function=torch.cat)
STEPS = [SQUARE, COSINE, SUM]


def _explained(operation: TorchOperation) -> Iterator[Way]:
    if operation.name == "square":
        yield Way("another-function", "torch takes square, Flax abs", instead(torch.abs))


def _done(step: TorchOperation, way: Way) -> torch.Tensor:
    return way.run(step.function, step.arguments)


def test_another_way_for_one_use_alone() -> None:
    made = list(in_one_use(STEPS, _explained))
    assert [(number, way.why) for number, way in made] == [
        (2, "for add alone, torch takes square, Flax abs"),
        (1, "for cos alone, torch takes square, Flax abs"),
    ]
    assert torch.equal(_done(SUM, made[0][1]), X + COSINE.result)
    assert torch.equal(_done(COSINE, made[1][1]), X.cos())
    assert list(in_one_use([SQUARE, COSINE], _explained)) == [], "taken once, it is made in another way itself"


def test_an_earlier_tensor_in_every_use() -> None:
    made = [(number, way) for number, way in replaced(STEPS, STEPS) if torch.equal(_done(STEPS[number], way), X)]
    assert [number for number, _ in made] == [0]
    assert "where torch takes what square gives" in made[0][1].why
    assert list(replaced([SQUARE, COSINE], [SQUARE, COSINE])) == [], "taken once, the step that takes it has another"


def test_one_of_a_list() -> None:
    ways = [way for number, way in others([JOINED], [SQUARE, COSINE, JOINED], []) if number == 3]
    wanted = torch.cat([X, COSINE.result]), torch.cat([SQUARE.result, X])
    done = [_done(JOINED, way) for way in ways]
    assert all(any(torch.equal(one, each) for each in done) for one in wanted)
    assert not any(torch.equal(do(torch.cat, JOINED.arguments), each) for each in done)


def test_having_is_of_names() -> None:
    assert torch.equal(having(other=X)(torch.add, SUM.arguments), SQUARE.result + X)
