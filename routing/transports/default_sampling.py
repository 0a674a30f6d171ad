"""Pure: sampling parameters that a version of a model has by default, where a request names none."""

from typing import Final

import msgspec

from protos.types import Payload, Sampling, Submit

#: The parameters that can have a default; each is None where a request does not name it.
NAMES: Final = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_GENERATING: Final = ("/chat/completions", "/completions")
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def with_defaults(submit: Submit, defaults: Sampling) -> Submit:
    """Return the submit with the defaults in place of what it does not name, in the body of an upstream as well."""
    missing = {
        name: value
        for name in NAMES
        if (value := getattr(defaults, name)) is not None and getattr(submit.sampling, name) is None
    }
    if missing:
        submit = msgspec.structs.replace(submit, sampling=msgspec.structs.replace(submit.sampling, **missing))
    if submit.payload is not None and submit.payload.path in _GENERATING:
        submit = msgspec.structs.replace(submit, payload=_told(submit.payload, defaults))
    return submit


def _told(payload: Payload, defaults: Sampling) -> Payload:
    try:
        members = _MEMBERS.decode(payload.body)
    except (msgspec.DecodeError, RecursionError):
        return payload  # the upstream's transport refuses it
    for name in NAMES:
        value = getattr(defaults, name)
        if value is not None and bytes(members.get(name, b"null")) == b"null":
            members[name] = msgspec.Raw(msgspec.json.encode(value))
    return msgspec.structs.replace(payload, body=msgspec.json.encode(members))
