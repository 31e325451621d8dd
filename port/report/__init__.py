"""What a person looks at: the verdict's table and the plot, a conversion's mapping."""

from port.report.conversion import print_conversion
from port.report.plot import plot_losses
from port.report.tables import print_outcomes, print_verdict

__all__ = ["plot_losses", "print_conversion", "print_outcomes", "print_verdict"]
