"""One module per paper; each registers its studies."""
