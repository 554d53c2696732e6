"""Whether a text tells a number: digests and ids drawn at random hold any digits, and tell nothing."""

import re


def says(number: int, text: str | bytes) -> bool:
    """Whether the text has the number as a word of its own."""
    whole = text if isinstance(text, str) else text.decode("latin-1")
    return re.search(f"(?<![0-9A-Za-z]){number}(?![0-9A-Za-z])", whole) is not None
