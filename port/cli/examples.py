"""Examples of each command, as ``--help`` prints them: purpose → command line."""

from __future__ import annotations

EXAMPLES: dict[str, dict[str, str]] = {
    "convert": {
        "a checkpoint to Flax": "port convert resnet50.pth --torch torchvision.models:resnet50 -o resnet50.safetensors",
        "preview every tensor's conversion; writes nothing": "port convert ckpt.pth --torch my_pkg:Net --dry-run",
        "a model that is built from a configuration": "port convert ckpt.pt --torch model:GPT -o out.safetensors "
        """--kwargs '{"config": {"@model:GPTConfig": {"n_layer": 6}}}'""",
        "with the optimizer's state": "port convert ckpt.pt --torch my_pkg:Net --optimizer torch.optim:AdamW "
        "-o params --format orbax",
    },
    "translate": {
        "a torchvision model": "port translate torchvision.models:resnet18 --input 1,3,224,224 -o ported",
        "your model, with weights": "port translate my_pkg.model:Net --weights net.pth --input 8,16:int64 -o ported",
        "list what has no pair": "port translate my_pkg.model:Net --inputs my_pkg.model:example --dry-run",
    },
    "check": {
        "a hand-written port": "port check torchvision.models:resnet18 my_pkg.resnet:ResNet18 --input 2,3,64,64",
        "two checkpoints": "port check model:GPT model_jax:GPT --kwargs model:config --input 2,16:int64 "
        "--torch-weights gpt.pt --flax-weights gpt.safetensors",
        "two nnx modules, without PyTorch": "port check my_pkg.first:Net my_pkg.second:Net --input 4,16",
        "for a program": "port check my_pkg:Net my_pkg_jax:Net --inputs my_pkg:example --json",
    },
    "match": {
        "a model and its Flax version": "port match torchvision.models:resnet18 my_pkg.flax_resnet:ResNet18 "
        "--input 2,3,64,64 -o mapping.toml",
        "tokens, from a function of yours": "port match my_pkg.model:GPT my_pkg.flax_model:GPT "
        "--inputs my_pkg.model:batch",
        "with what you know": r"port match my_pkg.model:Net my_pkg.flax_model:Net --input 4,16 "
        r"--rename '^left=Dense_0' -o mapping.toml",
    },
    "train": {
        "our convnet on handwritten digits": "port train --model convnet --optimizer adam --steps 500",
        "your model and its translation": "port train --torch-model my_pkg.model:Net "
        "--jax-model ported/net.py:Net --steps 200",
        "your scripts, which record with port.Recorder": "port train --torch-script mine_torch.py "
        "--jax-script mine_jax.py -- --steps 100",
    },
    "script": {
        "what a script does, and its update in JAX": "port script train.py -- --epochs 2 --lr 1e-3",
        "only the account, line by line": "port script train.py --observe-only -- --epochs 2 --lr 1e-3",
        "a script run as a module, in the current folder": "port script -m my_pkg.train --observe-only -o seen "
        "-- --config c.yml",
        "more updates, as data": "port script train.py --observe-only --watch 12 --json",
    },
    "compare": {
        "two runs": "port compare torch.jsonl jax.jsonl",
        "in float32, beside torch from weights moved in their last places": "port compare torch.jsonl jax.jsonl "
        "--control c1.jsonl c2.jsonl c3.jsonl",
        "with a page of curves": "port compare torch.jsonl jax.jsonl --html page.html",
    },
    "report": {
        "all runs of a folder, on one page": "port report runs/ -o report.html",
        "two of them, in the terminal": "port report runs/adam runs/sgd",
    },
    "diff": {
        "a lesson in the terminal": "port diff train",
        "any two files": "port diff mine_torch.py mine_jax.py",
        "where the two frameworks silently differ": "port diff --table",
    },
    "mcp": {
        "what an assistant starts": "port mcp",
        "the tools, with the schemas of what they take and give": "port mcp --list",
    },
    "skill": {
        "for an assistant that reads its guides from a folder": "port skill -o skills/port/SKILL.md",
        "to read it": "port skill",
    },
}


def examples_of(command: str) -> str:
    """The examples printed below a command's options."""
    lines = (f"  {command_line}\n      {purpose}" for purpose, command_line in EXAMPLES[command].items())
    return "examples:\n" + "\n".join(lines)


def first_examples() -> str:
    """One example of each command."""
    return "examples:\n" + "\n".join(f"  {next(iter(lines.values()))}" for lines in EXAMPLES.values())
