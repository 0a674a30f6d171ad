"""Examples whose one stretch is marked: «so»."""

from safety.filter import StreamFilter
from safety.plain_text import plain_bytes


def assert_found(filter_: StreamFilter, marked: str, kind: str | None = None) -> None:
    """The filter finds just the stretch that is marked, in the whole text and character by character."""
    before, _, rest = marked.partition("«")
    value, _, after = rest.partition("»")
    text = before + value + after
    found = filter_.scan(text, plain_bytes(text))
    assert [text[match.start : match.end] for match in found] == [value]
    assert kind is None or [match.label for match in found] == [kind]
    stream = filter_.stream()
    assert [match for character in text for match in stream.feed(character)] + list(stream.finish()) == found
