"""Pages to look at: of a run, and again of a sorted folder."""
