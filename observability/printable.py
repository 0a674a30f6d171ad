"""Make texts from others, such as an upstream's error, safe for a line of a log or of a terminal."""


def printable(text: str) -> str:
    """Escape characters that would begin a new line or control a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
