"""The keys of a request by which a split chooses its version: requests with one key get one version."""

import msgspec

from gateway.api.openai.sampling_params import SamplingFields

#: The beginning of a text completion's prompt, in characters, that stands for its conversation.
_BEGINNING = 256


def conversation(fields: SamplingFields) -> bytes:
    """Return the key of a request's conversation: the first message of its user, which all its later requests repeat.

    Instructions do not count, as they may differ from turn to turn.
    """
    for message in getattr(fields, "messages", ()):
        if message.role == "user":
            return msgspec.json.encode(message.content)
    prompt = getattr(fields, "prompt", None)
    return msgspec.json.encode(prompt[:_BEGINNING]) if prompt else b""


def user(fields: SamplingFields) -> bytes:
    """Return the key of the user that a request names; empty where it names none."""
    named = getattr(fields, "safety_identifier", None) or fields.user
    return named.encode() if named else b""
