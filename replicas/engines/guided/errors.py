"""Errors of guides."""


class GuideError(ValueError):
    """No answer can match the guide, or it cannot be read. The message may quote it, so it is for nobody else."""
