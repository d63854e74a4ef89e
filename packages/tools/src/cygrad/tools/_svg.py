"""Small pieces of SVG text: escaping, how wide text will be, numbers without noise."""

import re
import unicodedata
from functools import lru_cache

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
MONO = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"

# Advance widths in parts of the font size, for the widest of the fonts above, so that text fits whichever is found.
_NARROW = dict.fromkeys("iIjl.,:;'|!` ", 0.36) | dict.fromkeys('frt()[]{}/\\-"', 0.43)
_WIDE = dict.fromkeys("mwMWQ@%", 0.98) | dict.fromkeys("ABCDEGHKNOPRUVXY&+=<>~×→", 0.8)

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_BREAKS = re.compile(r"[^\S ]")


@lru_cache(maxsize=4096)
def text_width(text, size):
    """Return an upper estimate of how wide `text` comes out in a sans-serif font of `size` pixels."""
    return size * sum(_advance(c) for c in text)


def _advance(c):
    if c in _NARROW:
        return _NARROW[c]
    if c in _WIDE:
        return _WIDE[c]
    if unicodedata.combining(c):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(c) in "WF" else 0.64


def clean(text):
    """Replace what XML cannot contain, even escaped: control characters, lone surrogates, non-characters."""
    return _FORBIDDEN.sub("\ufffd", text)


def escape(text):
    """Make `text` fit for element content and for quoted attributes."""
    return clean(text).translate(_ESCAPES)


def shorten(text, limit):
    """Cut the middle out of `text` if it is longer than `limit` characters, and put it on one line."""
    text = " ".join(text.split()) if _BREAKS.search(text) else text
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return text[:head] + "…" + text[len(text) - (limit - 1 - head) :]


def number(x):
    """Write a coordinate with at most one decimal."""
    text = f"{x:.1f}"
    return text[:-2] if text.endswith(".0") else text
