"""Where models come from: one source per prefix of a model's address."""
