"""The benchmarks' own file formats and names, understood as they are."""
