"""Several example calls give one source, with what only some do under the original's own condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import port
from port.errors import UsageError
from port.translation import Translation
from port.translation.folder import write_folder
from port.translation.verify import prove
from port.translation.verify.reverify import prove_files

from .case_nets import (
    AnyRank,
    ByLength,
    Cached,
    Cast,
    Classifier,
    DefaultMask,
    DefaultPositions,
    Either,
    KeepMask,
    Nested,
    Normalized,
    Outputs,
    Threshold,
    Together,
)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)


def batch(length: int = 7) -> Tensor:
    return torch.randn(3, length, 12)


def kept(length: int = 7) -> Tensor:
    mask = (torch.rand(3, length) > 0.4).long()
    mask[:, 0] = 1
    return mask


def labels() -> Tensor:
    return torch.randint(0, 3, (3,))


def translated(module: nn.Module, cases: Sequence[Any], *, static: bool = False) -> Translation:
    made = port.translate(module, cases=cases, static=static)
    assert made.proof is not None
    assert made.proof.agrees, str(made.proof)
    return made


def check_runs_as(made: Translation, module: nn.Module, *args: Any, **kwargs: Any) -> None:
    """Check that the written module's outputs equal the original's, in evaluation."""
    made.module.eval()
    with torch.no_grad():
        theirs = module.eval()(*args, **kwargs)
    ours = made.run(*args, **kwargs)
    both = zip(torch.utils._pytree.tree_leaves(theirs), torch.utils._pytree.tree_leaves(ours), strict=True)
    for one, other in both:
        np.testing.assert_allclose(np.asarray(other), one.numpy(), rtol=2e-4, atol=2e-5)


def root(made: Translation) -> str:
    """The call of the root, as source."""
    source = made.source[: made.source.find("\ndef load")]
    return source[source.rindex("def __call__") :]


CLASSIFIER = [
    lambda: (batch(),),
    lambda: (batch(), kept()),
    lambda: {"x": batch(), "labels": labels()},
    lambda: ((batch(), kept()), {"return_weights": True}),
    lambda: {"x": batch(), "pool": "max"},
]


@pytest.fixture(scope="module")
def classifier() -> tuple[Classifier, Translation]:
    torch.manual_seed(3)
    module = Classifier()
    return module, translated(module, [make() for make in CLASSIFIER], static=True)


@pytest.mark.sweep
def test_what_some_calls_do_stands_behind_the_originals_own_conditions(
    classifier: tuple[Classifier, Translation],
) -> None:
    _, made = classifier
    assert "if mask is not None:\n            scores = " in made.source
    for line in ("x = x + block(x, mask)", "if return_weights:", 'if pool == "mean":', "if labels is not None:"):
        assert line in root(made)
    assert "x, weights = self.last(x, mask, True)" in root(made)


@pytest.mark.sweep
def test_every_call_is_proved(classifier: tuple[Classifier, Translation]) -> None:
    _, made = classifier
    assert made.proof is not None
    for number in range(2, len(CLASSIFIER) + 1):
        compared = [row.what for row in made.proof.rows if row.what.endswith(f"in example call {number}")]
        assert any(what.startswith("gradients in training") for what in compared)


@pytest.mark.sweep
@pytest.mark.parametrize(("with_mask", "with_labels", "weights"), list(product((False, True), repeat=3)))
def test_combinations_that_no_call_has_are_right(
    classifier: tuple[Classifier, Translation], with_mask: bool, with_labels: bool, weights: bool
) -> None:
    module, made = classifier
    options: dict[str, Any] = {"return_weights": weights} if weights else {}
    options |= {"mask": kept()} if with_mask else {}
    options |= {"labels": labels()} if with_labels else {}
    check_runs_as(made, module, batch(), **options)


@pytest.mark.sweep
def test_a_branch_that_no_call_takes_is_named_and_raises(classifier: tuple[Classifier, Translation]) -> None:
    _, made = classifier
    branch, word = made.untaken
    assert branch.startswith("`if extra is not None`")
    assert "case_nets.py:" in branch
    assert word.startswith("pool with a value other than 'mean', 'max'")
    for options, named in (({"extra": batch()}, "extra=None"), ({"pool": "first"}, "has pool like this")):
        with pytest.raises(NotImplementedError, match=named):
            made.run(batch(), **options)


@pytest.mark.sweep
def test_a_fault_in_one_call_alone_is_found(classifier: tuple[Classifier, Translation]) -> None:
    module, made = classifier
    wrong = replace(made.others[3], source=made.source.replace("jnp.max(x, axis=1)", "jnp.min(x, axis=1)"))
    assert wrong.source != made.source
    assert not prove(module, wrong, (), {"x": batch(), "pool": "max"}).agrees
    assert prove(module, replace(made, source=wrong.source), (batch(),), {}).agrees


@pytest.mark.sweep
def test_the_files_prove_every_call_again(classifier: tuple[Classifier, Translation], tmp_path: Path) -> None:
    module, made = classifier
    write_folder(made, tmp_path / "out", name="classifier")
    for args, kwargs in ([(batch(),), {}], [(batch(), kept()), {"return_weights": True}]):
        proof = prove_files(tmp_path / "out" / "classifier.py", module, args, kwargs)
        assert proof.agrees, str(proof)


@pytest.mark.sweep
def test_a_local_that_is_none_in_some_calls_is_one_argument() -> None:
    made = translated(KeepMask(), [(batch(),), (batch(), kept())], static=True)
    assert "y, _ = layer(x, x, x, key_padding_mask=drop, need_weights=False)" in root(made)
    assert "drop = None" in root(made)


@pytest.mark.sweep
def test_an_argument_that_has_another_value_by_then_is_asked_first() -> None:
    module = DefaultMask()
    mask = kept().float()
    made = translated(module, [(batch(),), (batch(), mask)])
    assert "with_mask = mask is not None" in root(made)
    check_runs_as(made, module, batch(5))
    check_runs_as(made, module, batch(5), kept(5).float())


def test_an_option_that_is_given_a_value_before_it_is_read_raises_where_it_is_given() -> None:
    module = DefaultPositions()
    made = port.translate(module, cases=[(batch(),), (batch(), kept())], check=False, static=True)
    check_runs_as(made, module, batch(), kept())
    with pytest.raises(NotImplementedError, match="positions=None"):
        made.run(batch(), kept(), torch.arange(7).flip(0))


@pytest.mark.sweep
def test_a_number_that_calls_give_is_the_argument() -> None:
    module = Normalized()
    made = translated(module, [(batch(), 1e-3, 2.0), (batch(), 1e-2, 2.0), (batch(), 1e-3, 3.0)])
    assert "eps: float = 0.001" in root(made)
    check_runs_as(made, module, batch(4), 0.5, 7.0)


@pytest.mark.sweep
def test_ranks_tell_calls_apart() -> None:
    module = AnyRank()
    made = translated(module, [(batch(),), (batch()[0],)])
    assert "x.ndim == 2" in root(made)
    check_runs_as(made, module, batch(4)[1])
    check_runs_as(made, module, batch(4))


@pytest.mark.sweep
def test_what_two_options_do_at_once_is_not_guessed() -> None:
    module = Outputs()
    made = translated(
        module, [(batch(),), {"x": batch(), "labels": labels()}, {"x": batch(), "auxiliary": True}], static=True
    )
    with pytest.raises(NotImplementedError, match="labels and auxiliary together"):
        made.run(batch(), labels=labels(), auxiliary=True)
    both = {"x": batch(), "labels": labels(), "auxiliary": True}
    whole = translated(module, [(batch(),), {"x": batch(), "labels": labels()}, both], static=True)
    check_runs_as(whole, module, batch(), labels=labels(), auxiliary=True)
    assert "loss = " in root(whole)  # an item of a dict has its key's name


@pytest.mark.sweep
def test_options_that_vary_together_are_not_told_apart() -> None:
    module = Together()
    made = translated(module, [(batch(),), (batch(), True, True)])
    assert any("first and second" in line for line in made.untaken)
    check_runs_as(made, module, batch(5), True, True)
    check_runs_as(made, module, batch(5), False, True)  # no call has it, and it was tried: it is right
    with pytest.raises(NotImplementedError, match="together"):
        made.run(batch(), True, False)


def test_calls_that_no_argument_tells_apart_are_refused_with_what_decides() -> None:
    with pytest.raises(UsageError, match=r"return self\.(short|long)\(x\).*if x\.shape\[1\] > 5.*case_nets\.py"):
        port.translate(ByLength(), cases=[(batch(4),), (batch(9),)])


def test_an_argument_that_no_source_says_is_the_same_in_all_calls() -> None:
    with pytest.raises(UsageError, match=r"dtype is torch\.float16 in one example call"):
        port.translate(Cast(), cases=[(batch(),), (batch(), torch.float16)], static=True)


def test_inputs_are_given_once() -> None:
    with pytest.raises(UsageError, match="not both"):
        port.translate(AnyRank(), (batch(),), cases=[(batch(),)])


@pytest.mark.sweep
def test_one_call_alone_keeps_the_signature_and_its_defaults() -> None:
    module = Classifier()
    made = translated(module, [(batch(4), kept(4))], static=True)
    assert 'pool: str = "mean"' in root(made)
    check_runs_as(made, module, batch(4), kept(4))
    assert len(made.to_flax((batch(4), kept(4)))) == 2
    with pytest.raises(NotImplementedError, match="labels=None"):
        made.run(batch(4), kept(4), labels=labels())


@pytest.mark.sweep
def test_a_switch_of_a_checkpointed_call_is_no_array() -> None:
    module = Classifier(depth=1)
    cases = [(batch(),), ((batch(), kept()), {"return_weights": True})]
    made = port.translate(module, cases=cases, remat="Attention", static=True)
    assert "@nnx.remat(static_argnums=3)" in made.source
    assert made.proof is not None and made.proof.agrees, str(made.proof)


UNSEEN: dict[str, tuple[type[nn.Module], list[Any], list[tuple[Any, ...]]]] = {
    "elif": (Either, [(batch(),), (batch(), True), (batch(), False, True)], [(True, True)]),
    "nested": (Nested, [(batch(),), (batch(), kept()), (batch(), kept(), True)], [(None, True)]),
    "a cache": (Cached, [(batch(),), (batch(), batch(2)[..., :4]), (batch(), None, True)], [(batch(2)[..., :4], True)]),
    "a number": (Threshold, [(batch(), 2.0), (batch(), 3.0)], [(20.0,), (0.1,)]),
}


@pytest.mark.parametrize("name", UNSEEN)
@pytest.mark.sweep
def test_what_no_call_has_is_right_or_raises(name: str) -> None:
    make, cases, others = UNSEEN[name]
    module = make()
    made = translated(module, cases, static=True)
    for case in cases:
        check_runs_as(made, module, *case)
    for other in others:
        try:
            check_runs_as(made, module, batch(), *other)
        except NotImplementedError as error:
            assert "no example call has" in str(error)


def test_without_a_check_nothing_is_tried_and_what_no_call_has_raises() -> None:
    module = Outputs()
    calls = [(batch(),), {"x": batch(), "labels": labels()}, {"x": batch(), "auxiliary": True}]
    made = port.translate(module, cases=calls, check=False, static=True)
    with pytest.raises(NotImplementedError, match="labels and auxiliary together"):
        made.run(batch(), labels=labels(), auxiliary=True)
