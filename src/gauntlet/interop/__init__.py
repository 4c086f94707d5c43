"""Other tools' protocols: Gauntlet's models, datasets, metrics and threats in their shape, and theirs in ours."""
