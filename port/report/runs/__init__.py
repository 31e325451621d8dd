"""Several runs on one page: their verdicts, their losses over one another, and the options in which they differ."""
