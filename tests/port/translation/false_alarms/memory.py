"""What the proof says where memory ends: a line for each limit.

    python -m tests.port.translation.false_alarms.memory 12 8 6 5

Each number is how many times the parameters' size in float64 the process may take beside what it has. For Linux alone.
"""

from __future__ import annotations

import resource
import sys

import torch
from torch import nn

from port.translation import translate
from port.translation.verify import prove

from .word import word_of


def main() -> None:
    """The command."""
    torch.manual_seed(0)
    # Once small, so that what is loaded and compiled for every proof is there.
    translate(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), torch.randn(2, 3))
    module = nn.Sequential(nn.Linear(1500, 3000), nn.Tanh(), nn.Linear(3000, 3000), nn.Tanh(), nn.Linear(3000, 400))
    x = torch.randn(2, 1500)
    translation = translate(module, x, static=True, check=False)
    double = 8 * sum(parameter.numel() for parameter in module.parameters())
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    for times in map(float, sys.argv[1:]):
        resource.setrlimit(resource.RLIMIT_AS, (int(taken + times * double), most))
        try:
            proof = prove(module, translation, (x,), {})
        except Exception as error:
            print(f"{times:g}: raised {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
        else:
            print(f"{times:g}: {word_of(proof)}", proof.failed or "", flush=True)


if __name__ == "__main__":
    main()
