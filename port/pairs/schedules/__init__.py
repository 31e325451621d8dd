"""torch.optim.lr_scheduler ⇄ optax schedules: pairs, reading a live scheduler, and restoring one."""

from port.pairs.schedules.formulas import SCHEDULES
from port.pairs.schedules.known import all_schedules, pair_of_scheduler
from port.pairs.schedules.pair import Plateau, Scheduled, SchedulePair
from port.pairs.schedules.place import check_place, place, place_of, place_plateau
from port.pairs.schedules.read import factor_of, plateau_of, schedule_of

__all__ = [
    "SCHEDULES",
    "Plateau",
    "SchedulePair",
    "Scheduled",
    "all_schedules",
    "check_place",
    "factor_of",
    "pair_of_scheduler",
    "place",
    "place_of",
    "place_plateau",
    "plateau_of",
    "schedule_of",
]
