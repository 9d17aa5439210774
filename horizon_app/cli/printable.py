"""Text of files and models on a terminal: it may hold anything, and a terminal gets no control characters from it."""

import unicodedata


def printable(text: str) -> str:
    """The text with control characters spelt out, but for line ends and tabs."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) != "Cc" else f"\\x{ord(c):02x}" for c in text)
