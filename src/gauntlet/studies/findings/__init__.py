"""What the papers claim, recomputed from published figures alone: one module per paper, `page` writes them down."""
