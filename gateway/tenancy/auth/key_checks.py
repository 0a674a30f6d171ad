"""API key rules that span fields or that a type cannot say."""

from typing import Final

from gateway.config.errors import echo
from gateway.config.tenant_checks import Problems, limits_problems, pattern_problems, repeated
from gateway.tenancy.auth.key_records import ApiKey, KeyRequest

_LONGEST_KEY_NAME: Final = 64
_MOST_METADATA: Final = 16
_LONGEST_METADATA_NAME: Final = 64
_LONGEST_METADATA_VALUE: Final = 512


def key_problems(key: KeyRequest | ApiKey, now: float | None) -> Problems:
    """Yield (path, problem) for each violated rule. With `now`, the store's time, the expiry must be later."""
    if not 1 <= len(key.name) <= _LONGEST_KEY_NAME or not key.name.isprintable() or not key.name.strip():
        yield "name", f"a key's name has 1 to {_LONGEST_KEY_NAME} printable characters"
    yield from pattern_problems(key.models, "models")
    yield from repeated(key.endpoints, "endpoints")
    yield from limits_problems(key.limits, "limits")
    yield from _metadata_problems(key.metadata)
    if now is not None and key.expires_at is not None and key.expires_at <= now:
        yield "expires_at", f"lies in the past: {key.expires_at:.0f}, and the store's clock says {now:.0f}"


def _metadata_problems(metadata: dict[str, str]) -> Problems:
    if len(metadata) > _MOST_METADATA:
        yield "metadata", f"at most {_MOST_METADATA} entries, got {len(metadata)}"
    for name, value in metadata.items():
        if not 1 <= len(name) <= _LONGEST_METADATA_NAME or not name.isprintable():
            yield "metadata", f"a name has 1 to {_LONGEST_METADATA_NAME} printable characters, got {echo(name)}"
        elif len(value) > _LONGEST_METADATA_VALUE or not value.isprintable():
            yield f"metadata.{name}", f"at most {_LONGEST_METADATA_VALUE} printable characters, got {echo(value)}"
