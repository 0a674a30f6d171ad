"""Rewrites a client's request for an upstream: the upstream's model name, its key, and usage requested."""

from hashlib import blake2b
from typing import Final

import msgspec

from observability.tracing.trace_context import trace_headers
from protos.types import Payload
from routing.transports.http.origin import Origin, head, is_header_value
from routing.transports.openai.settings import OpenAISettings

CHAT_PATH: Final = "/chat/completions"
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_OPTIONS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_ENCODER: Final = msgspec.json.Encoder()
_TRUE: Final = msgspec.Raw(b"true")
_USAGE: Final = msgspec.Raw(b'{"include_usage":true}')
#: Bytes of a salt's hash, sent as hexadecimal digits.
_SALT_BYTES: Final = 16
_ACCEPT: Final = {True: "text/event-stream", False: "application/json"}


class Requests:
    """Writes the requests to one upstream, which knows the model as `model`."""

    def __init__(self, origin: Origin, model: str, settings: OpenAISettings) -> None:
        self._origin = origin
        self._model = msgspec.Raw(_ENCODER.encode(model))
        self._headers = settings.sent_headers
        self._forces_usage = settings.counts_usage
        self._limit_as = settings.limit_as
        self._salt_as = settings.salt_as
        self._key: str | None = None
        self._heads: dict[tuple[str, bool], bytes] = {}

    def request(self, payload: Payload, key: str | None, adapter: str = "", salt: str = "", trace: str = "") -> bytes:
        """Return head and body, for the model or for an adapter, which is a model there; `salt` and `trace` are as in
        `Submit`.

        Raises ValueError for what cannot be sent, such as a key with a line end in it.
        """
        if key != self._key:
            self._key = key
            self._heads.clear()
        start = self._heads.get((payload.path, payload.stream))
        if start is None:
            start = self._heads[payload.path, payload.stream] = self._head(payload)
        body = self.body(payload, adapter, salt)
        if trace:
            start += "".join(f"{name}: {value}\r\n" for name, value in trace_headers(trace).items()).encode()
        return b"%bcontent-length: %d\r\n\r\n%b" % (start, len(body), body)

    def body(self, payload: Payload, adapter: str = "", salt: str = "") -> bytes:
        """Return the body; unchanged members keep their bytes. Raises ValueError."""
        try:
            return self._rewritten(payload, adapter, salt)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"its body is not the API's: {error}") from None

    def _rewritten(self, payload: Payload, adapter: str, salt: str) -> bytes:
        members = _MEMBERS.decode(payload.body)
        members["model"] = msgspec.Raw(_ENCODER.encode(adapter)) if adapter else self._model
        if payload.max_tokens is not None:
            # Text completions have only one name for the limit.
            name = self._limit_as if payload.path == CHAT_PATH else "max_tokens"
            for other in _LIMITS:
                members.pop(other, None)
            members[name] = msgspec.Raw(b"%d" % payload.max_tokens)
        if self._salt_as and salt:
            members[self._salt_as] = msgspec.Raw(b'"%b"' % self._hidden(salt))
        if not payload.stream or not self._forces_usage:
            members.pop("stream_options", None)
        else:
            asked = members.get("stream_options")
            options = _OPTIONS.decode(asked) if asked is not None else None
            if options:
                options["include_usage"] = _TRUE
                members["stream_options"] = msgspec.Raw(_ENCODER.encode(options))
            else:
                members["stream_options"] = _USAGE
        return _ENCODER.encode(members)

    def _hidden(self, salt: str) -> bytes:
        """Return the salt's hash, since the salt contains the tenant's name.

        The hash includes the provider's key, where there is one, so that others cannot compute a tenant's salt.
        """
        secret = blake2b((self._key or "").encode(), digest_size=32).digest()
        return blake2b(salt.encode(), key=secret, digest_size=_SALT_BYTES).hexdigest().encode()

    def key_header(self, key: str | None) -> dict[str, str]:
        """Return the header with the key. Raises ValueError, without the key in its text."""
        if not key:
            return {}
        if not is_header_value(key):
            raise ValueError("the provider's key has characters that cannot stand in a header")
        return {"authorization": f"Bearer {key}"}

    def _head(self, payload: Payload) -> bytes:
        own = {
            "accept": _ACCEPT[payload.stream],
            "accept-encoding": "identity",
            "user-agent": "penstock",
            "content-type": "application/json",
        }
        headers = own | self._headers | self.key_header(self._key)
        path = payload.path if payload.at_root else self._origin.path + payload.path
        return head("POST", path, self._origin, headers)
