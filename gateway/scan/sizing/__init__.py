"""How much memory a model takes, by its files or its name, and the shapes in which it fits on GPUs."""
