"""Token counts of one answer as its provider reports them, whatever the form it reports them in."""

import msgspec


class TokenCounts(msgspec.Struct, frozen=True):
    """`prompt` and `completion` are None where they are not reported; 0 is a count.

    `cached` (read from a cache), `written` (to a cache, for minutes or for a time that is not told), `written_long`
    (for an hour) and `audio_input` are parts of `prompt` without overlap; `reasoning` and `audio_output` are parts of
    `completion`.
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int = 0
    written: int = 0
    written_long: int = 0
    reasoning: int = 0
    audio_input: int = 0
    audio_output: int = 0
