"""The problem: constants give way to what is trained; a layer is one node with those it is fused with."""

from __future__ import annotations

from dataclasses import replace

from port.matching.problem import problem_of

from .chains import guide, unit

NEVER = (lambda one, other: False, lambda one, other: False)


def test_a_constant_is_no_twin_of_what_something_trained_can_be() -> None:
    scale = unit("scaler", "own", scale=(8,))
    table = replace(unit("table", "own", inv_freq=(1, 1, 8)), is_constant=True)
    flax = unit("query", "own", scale=(8,))
    problem = problem_of([scale, table], [flax], guide("flax", flax), NEVER, {})
    assert problem.for_flax((flax,)) == [(scale,)]
    # Where nothing trained can be it, the constant is.
    assert problem_of([table], [flax], guide("flax", flax), NEVER, {}).for_flax((flax,)) == [(table,)]


def test_what_is_trained_is_no_twin_of_a_constant_of_flaxs_where_something_trained_can_be() -> None:
    bias, query = unit("bias", "own", bias=(8,)), unit("query", "own", bias=(8,))
    zeros = replace(unit("zeros", "own", zeros=(8,)), is_constant=True)
    problem = problem_of([bias], [query, zeros], guide("flax", query, zeros), NEVER, {})
    assert problem.for_flax((query,)) == [(bias,)] and problem.for_flax((zeros,)) == []
    assert problem_of([bias], [zeros], guide("flax", zeros), NEVER, {}).for_flax((zeros,)) == [(bias,)]


def test_pieces_are_one_node() -> None:
    pieces = [unit(f"chunk_{number}", "own", weight=(2, 3)) for number in range(4)]
    table = unit("table", "own", table=(8, 3))
    problem = problem_of(pieces, [table], guide("flax", table), NEVER, {})
    assert problem.torch == (tuple(pieces),) and problem.for_flax((table,)) == [tuple(pieces)]


def test_a_layer_of_the_shape_that_several_have_together_may_be_itself() -> None:
    fused, plain = unit("attn.qkv", weight=(12, 4)), unit("mlp.fc1", weight=(12, 4))
    parts = tuple(replace(unit(f"attn.{name}", kernel=(4, 4)), pairs=()) for name in ("q", "k", "v"))
    dense = unit("dense", "own", kernel=(4, 12))
    problem = problem_of([fused, plain], [*parts, dense], guide("flax", *parts, dense), NEVER, {})
    assert problem.flax == (parts, (dense,))
    assert problem.for_flax(parts) == problem.for_flax((dense,)) == [(fused,), (plain,)]
    # A layer that only they can be is not itself.
    problem = problem_of([fused], [*parts, dense], guide("flax", *parts, dense), NEVER, {})
    assert problem.for_flax(parts) == [(fused,)] and problem.for_flax((dense,)) == []


def test_a_flatten_is_folded_in_where_features_may_have_been_spatial() -> None:
    layer, dense = unit("fc", weight=(5, 12)), unit("dense", "own", kernel=(12, 5))
    (plain,) = problem_of([layer], [dense], guide("flax", dense), NEVER, {}).between((layer,), (dense,))
    folded, other = problem_of([layer], [dense], guide("flax", dense), NEVER, {"fc": ((3, 2, 2),)}).between(
        (layer,), (dense,)
    )
    assert "folded in" in folded.note and other.found == plain.found and not folded.is_sure
