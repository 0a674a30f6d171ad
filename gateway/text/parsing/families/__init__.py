"""Output formats, one model family a module, and the registry that finds a family's format."""
