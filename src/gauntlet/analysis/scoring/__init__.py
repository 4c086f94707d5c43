"""One number per model, and who is first: ReM and GAM, scores, the rule of ranking, leaderboards."""
