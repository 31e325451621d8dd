"""The options of a written trainer that keep their values: those that its train_step.py was written for."""

from __future__ import annotations

from string import Template

from port.scripts.writing.trainer_facts import TrainerFacts

KEEPING = """
Options that train_step.py was written for (WRITTEN_FOR) keep their values: `port script` writes it for others.
"""
REFUSING = '''.

    Raises:
        SystemExit: one has another value than train_step.py was written for.
    """'''
PARSED = Template("""\
    args = parser.parse_args()
    for name, value in WRITTEN_FOR.items():
        if getattr(args, name) != value:
            parser.error(
                f"{name} is {getattr(args, name)!r}, and train_step.py was written for {value!r}: for another, "
                "port script $script -- with it"
            )
    return args
""")


def kept_options(facts: TrainerFacts) -> dict[str, str]:
    """What there is of options that keep their values."""
    if not facts.written_for:
        return {"keeping": "", "written_for": "", "refusing": '."""', "parsed": "    return parser.parse_args()\n"}
    return {
        "keeping": KEEPING,
        "written_for": f"WRITTEN_FOR: dict[str, Any] = {dict(facts.written_for)!r}\n",
        "refusing": REFUSING,
        "parsed": PARSED.substitute(script=facts.script),
    }
