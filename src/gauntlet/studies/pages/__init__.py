"""Pages of the documentation as studies: each runs models of its own and writes Markdown; one module per page."""
