"""Numbers in sentences for people."""

__all__ = ["figure", "plural"]


def figure(number: float, digits: int = 3) -> str:
    """Return a number with so many significant digits; a large one with more, instead of an exponent."""
    return f"{number:,.0f}" if number >= 10**digits - 0.5 else f"{number:.{digits}g}"


def plural(count: float, noun: str) -> str:
    """Return a number with its noun; all digits of an integer, and three of another number."""
    number = f"{count:,}" if isinstance(count, int) else figure(count)
    return f"{number} {noun}{'' if number == '1' else 's'}"
