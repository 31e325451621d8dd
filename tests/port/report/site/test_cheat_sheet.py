"""The cheat sheet says what the pairs say, all of it, and leads to where they are written."""

from __future__ import annotations

from port.pairs import LAYERS, name_of
from port.pairs.losses import FUNCTIONS
from port.pairs.notes import note
from port.pairs.ops import OPERATORS
from port.pairs.optimizers import OPTIMIZERS
from port.report.site.cheat_sheet import cheat_sheet, short
from port.report.site.places import PAIRS, place_of


def test_every_pair_is_a_row():
    entries = cheat_sheet()
    rows = {(entry.torch, twin.jax.partition("(…")[0]) for entry in entries for twin in entry.twins}
    lazy = {pair for pair in LAYERS if name_of(pair.flax) == "flax.nnx.Module"}  # there to say why not
    assert {(short(name_of(pair.torch)), short(name_of(pair.flax))) for pair in LAYERS if pair not in lazy} <= rows
    assert {(function.torch, function.jax) for function in FUNCTIONS} <= rows
    said = {entry.torch for entry in entries}
    assert {pair.torch for pair in OPTIMIZERS} <= said
    assert [(e.torch, e.twins[0].jax, e.notes) for e in entries if e.kind == "operator"] == [
        (pair.says, pair.jax, pair.notes) for pair in OPERATORS
    ]
    assert len([entry for entry in entries if entry.kind not in ("operator", "schedule")]) == len(
        {name_of(pair.torch) for pair in LAYERS} | {f.torch for f in FUNCTIONS} | {pair.torch for pair in OPTIMIZERS}
    )


def test_rows_say_what_a_person_would_look_up():
    rows = {entry.torch: entry for entry in cheat_sheet()}
    linear = rows["torch.nn.Linear"]
    assert linear.twins[0].jax == "nnx.Linear"
    assert linear.twins[0].moves == ("weight → kernel, permute(1, 0)", "bias, unchanged")
    assert "W1" in linear.notes
    assert rows["torch.optim.AdamW"].twins[0].jax == "optax.adamw(0.001, weight_decay=0.01)"
    cosine = next(entry for name, entry in rows.items() if name.startswith("lr_scheduler.CosineAnnealingLR("))
    assert cosine.twins[0].jax == "port.transforms.cosine_annealing_lr(0.1, T_max=100, eta_min=1e-5)"
    table = next(entry for name, entry in rows.items() if name.startswith("lr_scheduler.LambdaLR("))
    assert table.twins[0].jax == "port.transforms.tabulated(np.array([0.05, 0.05, 0.05, 0.05, …]))"
    assert rows["torch.nn.GELU"].twins[0].jax == "jax.nn.gelu(…, approximate=False)"
    var = rows["torch.var(input, dim, correction=correction, keepdim=keepdim)"]
    assert var.twins[0].jax == "jnp.var(input, axis=dim, ddof=correction, keepdims=keepdim)"
    assert (var.kind, var.notes, var.place.file) == ("operator", ("G4",), "ops/reductions.py")
    assert rows["torch.atan2(input, other)"].twins[0].moves == (
        "another gradient where jnp.any((input == 0) & (other == 0))",
    )
    for refused in ("torch.nn.LazyLinear", "torch.optim.SparseAdam"):
        (twin,) = rows[refused].twins
        assert twin.refused
        assert not twin.jax
    assert all(note(id) for entry in rows.values() for id in entry.notes)


def test_places_are_where_the_pair_is_said():
    for entry in cheat_sheet():
        lines = (PAIRS / entry.place.file).read_text("utf-8").splitlines()
        last = entry.torch.partition("(")[0].rpartition(".")[2]
        line = lines[entry.place.line - 1]
        # A name that is put together (Conv1d …) is said up to its number.
        assert any(last.startswith(said) for said in [last, last[:-2], last[:4]] if said in line), (entry, line)


def test_a_class_that_no_file_says_leads_to_the_first_line():
    assert place_of("torch.nn.Zzz", "losses.py").line == 1
