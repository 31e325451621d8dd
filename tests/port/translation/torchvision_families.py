"""Families of torchvision's models: what is written for one member is what is written for the others.

    python -m tests.port.translation.torchvision_families [FAMILY …] [--lines FILE] [--seconds 3000] [--most 3]

The first member of a family is translated, without its weights: it is proved by itself, in the table of single models.
Another one is proved by running the same source. The rest are constructed from it on shapes alone, as large as
torchvision has them: the same source is written for each, and each of its weights has its place; nothing of them is
run. The only member of a family is run by itself, its constructors written as torchvision's source has them. Lengths
are the example's: how they are left free, the table of single models shows. One JSON line a family is appended to FILE;
a family that has one is not run again. With ``--table`` what FILE holds is written over the rows of the kept table,
``torchvision_families.json``.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from .kept_table import KeptTable, Row

TABLE = KeptTable(Path(__file__).with_suffix(".json"), "tests.port.translation.torchvision_families", key="family")
LIMIT = 600.0
"""Seconds for each proof."""
LONGER = {"s3d": 3000.0}
"""The same for families whose only member takes longer: a smaller clip its last pooling does not take."""
RUN = {"resnet": "resnext50_32x4d", "quantized_resnet": "quantized_resnext101_32x8d"}
"""The member that is proved beside the first, where it is not the second: one that more arguments tell apart."""

ALSO = {
    "efficientnet": "efficientnet_b7",
    "swin": "swin_b",
    "swin3d": "swin3d_b",
    "swin_v2": "swin_v2_b",
    "video_resnet": "r2plus1d_18",
    "vit": "vit_h_14",
}
"""A member that shows, on shapes alone, which arguments hold that the one that is run has as the first, and what is
written for the classes that only it has."""

WINDOWS = {"swin": (2, 3, 260, 260), "swin_v2": (2, 3, 260, 260), "swin3d": (1, 3, 4, 260, 260)}
"""Images of which every stage has several windows, the last of them padded: so all of a class do the same, but shift.

Where there is one window, or nothing to pad, the source for that stage has shorter forms.
"""


def families() -> dict[str, list[Any]]:
    """The models of each family, in the order of the table of models: the smallest first."""
    from .torchvision_models import MODELS

    found = defaultdict(list)
    for model in MODELS.values():
        found[model.family].append(model)
    return dict(found)


def in_order(family: str) -> list[Any]:
    """The members: the one that is translated, the one that is proved beside it, the others."""
    first, *others = families()[family]
    others.sort(key=lambda model: model.name != RUN.get(family, model.name))
    return [first, *others]


def inputs_of(model: Any) -> Any:
    """What the members of a family are called with."""
    from .zoo.example import floats

    return ((floats(*WINDOWS[model.family]),), {}) if model.family in WINDOWS else model.inputs()


def row_of(family: str, most: int, *, runs: bool = True) -> Row:
    """Translate the first of a family, and see that its source is the others'.

    Args:
        family: its name.
        most: how many of the others are tried.
        runs: whether the second is run; otherwise it is constructed as the others are.
    """
    import port
    from port.translation import argument_validation
    from port.translation.frontend.meta_device import built_on_meta

    from .test_zoo import built

    warnings.simplefilter("ignore")
    if len(in_order(family)) == 1:
        return row_alone(family)
    first, second, *others = in_order(family)
    also = [other for other in others if other.name == ALSO.get(family)]
    row: Row = {"family": family, "member": first.name, "proved": {}, "constructed": [], "not": {}, "left": []}
    row["seconds"] = {}
    began = time.perf_counter()

    def took(name: str) -> None:
        nonlocal began
        row["seconds"][name] = round(time.perf_counter() - began)
        began = time.perf_counter()

    args, kwargs = inputs_of(first)
    translate = partial(port.translate, args=args, kwargs=kwargs, construct=first.build, static=True, time_limit=LIMIT)
    # What the second shows is not tried beside the first.
    with first.within(), patch.object(argument_validation, "_MOST", 0):
        try:
            at = partial(built, second) if runs else partial(built_on_meta, second.full)
            shown = [partial(built_on_meta, other.full) for other in also]
            made = translate(built_on_meta(first.build), at=[at, *shown])
        except port.errors.PortError as error:
            row["not"][second.name] = str(error)[:400]
            row["left"] = [other.name for other in others]
            took(second.name)
            return row
        took(second.name)
        assert made.proof is not None
        if not runs:
            row["constructed"].append(second.name)
        else:
            _tell(row, second.name, made.proof)
        for other in others[: most - 1]:
            try:
                made.constructed_at(other.full)
            except Exception as error:
                row["not"][other.name] = f"{type(error).__name__}: {error}"[:400]
            else:
                row["constructed"].append(other.name)
            took(other.name)
    row["left"] = [other.name for other in others[max(0, most - 1) :]]
    return row


def row_alone(family: str) -> Row:
    """Translate the only member of a family, and see that its constructors are kept and that it is the same."""
    import port
    from port.translation import argument_validation

    from .test_zoo import built

    (only,) = in_order(family)
    row: Row = {"family": family, "member": only.name, "proved": {}, "constructed": [], "not": {}, "left": []}
    began = time.perf_counter()
    args, kwargs = only.inputs()
    limit = LONGER.get(family, LIMIT)
    options = {"construct": only.build, "static": True, "time_limit": limit, "sizes_limit": 0.0}
    with only.within(), patch.object(argument_validation, "_MOST", 0):
        made = port.translate(built(only), args, kwargs, **options)
    assert made.proof is not None and made.elsewhere is not None
    if made.elsewhere.keeps_constructors:
        _tell(row, only.name, made.proof)
    else:
        row["not"][only.name] = "its constructors are not written as their source has them"
    return row | {"seconds": {only.name: round(time.perf_counter() - began)}}


def _tell(row: Row, name: str, proof: Any) -> None:
    """What a member's proof says."""
    if proof.agrees:
        rows = {compared.what.partition(" with ")[0]: compared.difference for compared in proof.rows}
        row["proved"][name] = {what: float(f"{far:.1e}") for what, far in rows.items()}
    else:
        row["not"][name] = str(proof)[:400]


def is_whole(row: Row) -> bool:
    """Whether all members of a family are what was written for the first: one was run, none differs or is left."""
    return bool(row["proved"]) and not row["not"] and not row["left"]


def count() -> str:
    """How many families the table says to be whole: ``28 of 34 families whole``."""
    return f"{sum(map(is_whole, TABLE.rows().values()))} of {len(families())} families whole"


def alone(family: str, seconds: float, most: int, *, runs: bool = True) -> Row:
    """`row_of` in a process of its own, which is ended when it takes too long."""
    return TABLE.alone(family, seconds, "--most", str(most), *([] if runs else ["--shapes"]))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="all by default")
    parser.add_argument("--lines", type=Path, default=Path("families.jsonl"))
    parser.add_argument("--seconds", type=float, default=3000.0, help="for each family")
    parser.add_argument("--most", type=int, default=100, help="members beside the first that are tried")
    parser.add_argument("--shapes", action="store_true", help="run none: construct the second, too")
    parser.add_argument("--table", action="store_true", help="write the kept table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(row_of(given.one, given.most, runs=not given.shapes)))
        return
    for family in given.families or families():
        if family not in TABLE.rows_in(given.lines):
            row = alone(family, given.seconds, given.most, runs=not given.shapes)
            with given.lines.open("a") as file:
                file.write(json.dumps(row) + "\n")
            told = {name: row.get(name) for name in ("why", "constructed", "not", "left", "seconds")}
            print(family, list(row.get("proved", ())), {name: said for name, said in told.items() if said}, flush=True)
    if given.table:
        TABLE.keep(TABLE.rows_in(given.lines), families())
    print(count())


if __name__ == "__main__":
    main()
