"""What is done about a match."""

import enum


class Action(enum.IntEnum):
    """From the mildest to the strictest; of two that apply to one match the stricter counts."""

    FLAG = 1
    REDACT = 2
    BLOCK = 3
