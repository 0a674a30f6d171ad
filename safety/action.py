"""The action that a rule takes on a match."""

import enum


class Action(enum.IntEnum):
    """Actions from the mildest to the strictest; of two that apply to one match the stricter counts."""

    FLAG = 1
    REDACT = 2
    BLOCK = 3
