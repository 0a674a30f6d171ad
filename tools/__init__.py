"""Programs for maintainers of the project. Nothing here is in the wheel."""
