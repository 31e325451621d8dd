"""Print the result of writing a script's update in JAX."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from port.judging import Status
from port.scripts.writing_process import WrittenUpdate
from port.visible import visible


def print_written(written: WrittenUpdate, folder: Path, console: Console) -> None:
    """Print the result of writing a script's update in JAX."""
    command = " ".join(written.observation.script["command"])
    if written.status is None:
        console.print(Text(f"{command}: its update is not written in JAX yet", "bold"), soft_wrap=True)
        for reason in written.reasons:
            console.print(Text(f"  {visible(reason, console.encoding)}"), soft_wrap=True)
        console.print(f"\n[dim]observation of it:[/] {folder / 'observed'}", soft_wrap=True)
        return
    console.print(Text(f"{command}: its update in JAX is {folder / 'train_step.py'}", "bold"), soft_wrap=True)
    table = Table.grid(padding=(0, 2))
    table.add_row("", Text("PyTorch", "dim"), Text("JAX", "dim"))
    for number, (ours, theirs) in enumerate(written.losses):
        table.add_row(f"loss of update {number}", f"{ours:.12g}", f"{theirs:.12g}")
    console.print(table)
    if written.status is Status.CANNOT_JUDGE:
        console.print(Text(f"{written.status}: {written.why}", "yellow"), soft_wrap=True)
    else:
        colour = "green" if written.status is Status.AGREE else "bold red"
        said = f": losses by {written.loss:.1e}, weights by {written.weights:.1e}, in float64, {written.draws}"
        console.print(Text.assemble((str(written.status), colour), said), soft_wrap=True)
    judged = f"; compare it with {command}: port train --torch-script … --jax-script {folder / 'train.py'}"
    said = f"run it: python {folder / 'train.py'}{judged}"
    if written.no_trainer:
        said = f"no train.py: {written.no_trainer}"
    console.print(Text(f"\n{visible(said, console.encoding)}", "yellow" if written.no_trainer else ""), soft_wrap=True)
    if written.remarks:
        console.print(Text("\nleft out, or different from the original", "bold"))
        for remark in written.remarks:
            console.print(Text(f"  {visible(remark, console.encoding)}"), soft_wrap=True)
    console.print(f"\n[dim]how to use it:[/] {folder / 'README.md'}", soft_wrap=True)
