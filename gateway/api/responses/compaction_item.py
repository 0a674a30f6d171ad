"""The item that stands for what a conversation was compacted from: it carries a summary.

OpenAI's is encrypted, since its models' thoughts are secret. Nothing of that kind is secret here, and the text comes
back as a message like any other, so the summary is only encoded: nobody gains anything by writing an item of his own.
"""

import base64
import binascii
from typing import Any, Final

from protos.errors import InvalidRequest

KIND: Final = "compaction"
PREFIX: Final = "cmp_"
#: In front of what is encoded here: other servers' items cannot be read.
_OURS: Final = "penstock1."
#: The words before the summary in a prompt.
_HEAD: Final = "Summary of the conversation so far:"


def compaction_item(item_id: str, summary: str) -> dict[str, Any]:
    """Make the item of a summary."""
    content = _OURS + base64.urlsafe_b64encode(summary.encode()).decode()
    return {"id": item_id, "type": KIND, "encrypted_content": content}


def summary_of(content: str, where: str) -> str:
    """Read the summary that an item carries, introduced as such. Raises InvalidRequest for an item made elsewhere."""
    try:
        if not content.startswith(_OURS):
            raise ValueError
        summary = base64.b64decode(content.removeprefix(_OURS), b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        param = f"{where}.encrypted_content"
        raise InvalidRequest(
            f"Invalid value for '{param}': it was not made by POST /v1/responses/compact here.", param=param
        ) from None
    return f"{_HEAD}\n\n{summary}"
