"""Python sources by their syntax trees: constants, calls, and which calls name a model."""
