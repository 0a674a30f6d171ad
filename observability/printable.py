"""Text of others, such as an upstream's or a replica's words, made fit for a line of a log or of a terminal."""


def printable(text: str) -> str:
    """The text with characters escaped that would begin a new line in a terminal, or do worse there."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
