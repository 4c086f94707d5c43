"""Not what a registry takes."""

seven = 7
