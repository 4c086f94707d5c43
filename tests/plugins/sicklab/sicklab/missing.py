"""Needs a package that nobody has."""

import a_package_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401
