"""Maps the library's exceptions to failures with the codes of protos/errors.py."""

import re

from protos.errors import GUIDE_PARAM
from protos.types import Failure, Submit

#: The library's messages for prompts that are too long ("... should not exceed max_num_tokens", "prompt length ...
#: exceeds ...", "default_max_tokens ... greater than 0").
_TOO_LONG = re.compile(
    r"max_num_tokens|max_seq_len|max_input_len|prompt length|context window|default_max_tokens", re.I
)
_GUIDE = re.compile(r"guided|grammar|schema|regex|xgrammar|llguidance|structural", re.I)


def failure_of(error: Exception, request: Submit) -> Failure:
    """Return the failure for an exception of one request, without its text, which may quote the prompt."""
    text = type(error).__name__
    if _TOO_LONG.search(str(error)):
        return Failure("context_length_exceeded", text)
    if request.guide is not None and _GUIDE.search(str(error)):
        return Failure("unsupported_parameter", text, GUIDE_PARAM)
    if isinstance(error, ValueError | NotImplementedError):
        param = "model" if request.adapter is not None and "lora" in str(error).lower() else None
        return Failure("unsupported_parameter", text, param)
    return Failure("engine_error", text)
