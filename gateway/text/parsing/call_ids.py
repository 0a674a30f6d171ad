"""Generated ids of tool calls, for models that give none."""

import re
import secrets
from typing import Final

_OWN: Final = re.compile(r"call_[0-9a-f]{24}")


def new_call_id() -> str:
    """Generate an id in OpenAI's form."""
    return f"call_{secrets.token_hex(12)}"


def is_own_call_id(call_id: str) -> bool:
    """Whether an id has the generated form, so that it carries nothing the model wrote."""
    return _OWN.fullmatch(call_id) is not None
