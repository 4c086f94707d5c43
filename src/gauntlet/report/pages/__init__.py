"""Pages beside the report: comparisons, model cards, the leaderboard site."""
