"""Output formats, one module for each model family, and their registry."""
