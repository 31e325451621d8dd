"""What a person looks at: the verdict's table, and the plot."""

from port.report.plot import plot_losses
from port.report.tables import print_outcomes, print_verdict

__all__ = ["plot_losses", "print_outcomes", "print_verdict"]
