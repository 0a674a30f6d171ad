"""Names of tool calls, for models that give their calls none."""

import re
import secrets
from typing import Final

_OWN: Final = re.compile(r"call_[0-9a-f]{24}")


def new_call_id() -> str:
    """As OpenAI's look."""
    return f"call_{secrets.token_hex(12)}"


def is_own_call_id(call_id: str) -> bool:
    """Whether it looks like one of these, in which no model can say anything."""
    return _OWN.fullmatch(call_id) is not None
