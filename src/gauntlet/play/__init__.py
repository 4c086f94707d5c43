"""The playground: a local page on which a model is attacked while one looks on; `gauntlet play` opens it."""
