"""How figures are written in the tables of docs/measurements."""


def number(value):
    return f"{value:,.{0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2}f}"


def mark(text, missed):
    return f"**{text}**, missed" if missed else text


def span(values):
    """The least and the most, or the one that all are."""
    least, most = number(min(values)), number(max(values))
    return least if least == most else f"{least}–{most}"
