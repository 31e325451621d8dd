"""Several runs on one page: their verdicts, their losses in one figure, and the options that differ."""
