"""torchvision's models translated, each in a process of its own: what agrees, and how the source reads.

    python -m tests.port.translation.torchvision_run [NAME …] [--lines FILE] [--seconds 900] [--table]

One JSON line a model is appended to FILE; a model that has one is not run again. ``--table`` then writes what FILE
holds over the rows of the kept table, ``torchvision_table.json``.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import resource
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("torchvision_table.json")
ROOT = Path(__file__).parents[3]
Row = dict[str, Any]


def row_of(name: str) -> Row:
    """Translate a model, its weights and running statistics random, and say what came of it."""
    import port
    from port.translation.verify import Proof

    from .lengths_tried import silently_wrong
    from .test_zoo import built
    from .torchvision_models import MODELS

    model = MODELS[name]
    row: Row = {"name": name, "family": model.family, "narrowed": model.narrowed, "changed": model.changed}
    began = time.perf_counter()
    try:
        module = built(model)
        args, kwargs = model.inputs()
        with model.within():
            translation = port.translate(module, args, kwargs)
            elsewhere = [] if translation.unwritten else silently_wrong(module, translation, args, kwargs)
    except Exception as error:
        seconds = round(time.perf_counter() - began, 1)
        return row | {"agrees": False, "error": f"{type(error).__name__}: {error}"[:500], "seconds": seconds}
    proof = translation.proof or Proof((), "", "not run: something in it is unwritten")
    return row | {
        "agrees": proof.agrees,
        "error": proof.failed,
        "precision": proof.precision,
        "rows": {compared.what: float(f"{compared.difference:.1e}") for compared in proof.rows},
        "apart": [str(compared) for compared in proof.rows if not compared.agrees],
        **reading_of(translation, module),
        "lengths": [" ".join(map(str, shape)) for shape in translation.lengths.shapes],
        "conditions": list(translation.lengths.conditions),
        "tried": list(translation.lengths.tried),
        "silently_wrong": elsewhere,
        "unwritten": [str(item) for item in translation.unwritten],
        "seconds": round(time.perf_counter() - began, 1),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 1),
    }


def reading_of(translation: Any, module: Any) -> Row:
    """How the source reads: its classes and lines beside the original's, its transposes, how many names it keeps."""
    names = _names(module)
    nodes = ast.walk(ast.parse(translation.source))
    written = {getattr(node, field) for node in nodes for field in ("id", "attr", "arg") if hasattr(node, field)}
    return {
        "classes": [len(_classes(translation.source)), len(_own(module))],
        "lines": [_lines(translation.source), sum(len(inspect.getsourcelines(cls)[0]) for cls in _own(module))],
        "transposes": translation.transposes,
        "names": [len(names & written), len(names)],
    }


def _names(module: Any) -> set[str]:
    """What the original calls its modules and parameters, and what its ``forward`` gives a name to."""
    own = _own(module)
    found = {
        name
        for inner in module.modules()
        if type(inner) in own
        for name in (*inner._modules, *inner._parameters)
        if not name.isdigit()
    }
    for cls in own:
        if "forward" in vars(cls):
            for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls.forward)))):
                match node:
                    case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                        found.add(name)
    return found


def _classes(source: str) -> list[ast.ClassDef]:
    return [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]


def _lines(source: str) -> int:
    return sum((node.end_lineno or 0) - node.lineno + 1 for node in _classes(source))


def _own(module: Any) -> list[type]:
    """The classes of a torch module, and of those inside, that are not torch's."""
    found = dict.fromkeys(type(inner) for inner in module.modules())
    return [cls for cls in found if not cls.__module__.startswith("torch.nn.")]


def alone(name: str, seconds: float) -> Row:
    """`row_of` in a process of its own, which is ended when it takes too long."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--one", name]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"name": name, "agrees": False, "error": f"more than {seconds:g} seconds"}
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return {"name": name, "agrees": False, "error": f"exit {done.returncode}: {said[-1] if said else ''}"[:500]}
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def written(lines: Path) -> dict[str, Row]:
    """The rows that a file of lines holds, by name."""
    if not lines.exists():
        return {}
    rows = [json.loads(line) for line in lines.read_text().splitlines() if line]
    return {row["name"]: row for row in rows}


def table() -> dict[str, Row]:
    """The kept table, by name."""
    return {row["name"]: row for row in json.loads(TABLE.read_text())} if TABLE.exists() else {}


def keep(rows: dict[str, Row]) -> None:
    """Write rows over those of the kept table, one a line, in the order of the models."""
    from .torchvision_models import MODELS

    known = table() | rows
    ordered = [json.dumps(known[name], ensure_ascii=False) for name in MODELS if name in known]
    TABLE.write_text("[\n" + ",\n".join(ordered) + "\n]\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lines", type=Path, default=Path("torchvision.jsonl"))
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(row_of(given.one)))
        return
    from .torchvision_models import MODELS

    for name in given.names or list(MODELS):
        if name in written(given.lines):
            continue
        row = alone(name, given.seconds)
        with given.lines.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(name, "agrees" if row["agrees"] else row.get("error") or row, f"{row.get('seconds', '')} s", flush=True)
    if given.table:
        keep(written(given.lines))


if __name__ == "__main__":
    main()
