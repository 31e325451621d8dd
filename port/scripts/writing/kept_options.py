"""Write the options of a trainer that are fixed: its train_step.py was written for their values."""

from __future__ import annotations

from string import Template

from port.scripts.writing.trainer_facts import TrainerFacts

KEEPING = """
Options that train_step.py was written for (WRITTEN_FOR) are fixed: run `port script` again for other values.
"""
REFUSING = '''.

    Raises:
        SystemExit: an option differs from the value that train_step.py was written for.
    """'''
PARSED = Template("""\
    args = parser.parse_args()
    for name, value in WRITTEN_FOR.items():
        if getattr(args, name) != value:
            parser.error(
                f"{name} is {getattr(args, name)!r}, but train_step.py was written for {value!r}: to change it, "
                "run port script $script -- with the new value"
            )
    return args
""")


def kept_options(facts: TrainerFacts) -> dict[str, str]:
    """The source pieces for fixed options."""
    if not facts.written_for:
        return {"keeping": "", "written_for": "", "refusing": '."""', "parsed": "    return parser.parse_args()\n"}
    return {
        "keeping": KEEPING,
        "written_for": f"WRITTEN_FOR: dict[str, Any] = {dict(facts.written_for)!r}\n",
        "refusing": REFUSING,
        "parsed": PARSED.substitute(script=facts.script),
    }
