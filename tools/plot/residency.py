"""Charts from the JSON of `causeway bench switch` and `causeway bench catalogue`."""

import svg

WAYS = (("idle", "first token, from home"), ("beside", "first token, from home, beside a neighbour"))
AS_SERVED = "as served"


def first_tokens(rows):
    """{model: {way: {start: milliseconds}}}, and {model: the floor}."""
    times, floors = {}, {}
    for row in rows:
        for way, figure in WAYS:
            if row["figure"] == figure:
                starts = times.setdefault(row["model"], {}).setdefault(way, {})
                starts[row["start"] or AS_SERVED] = row["measured"]
                floors[row["model"]] = row["limit"]
    return times, floors


def switch(document):
    """First-token times: idle and beside a neighbour, by when steps start."""
    times, floors = first_tokens(document["rows"])
    for model, ways in times.items():
        starts = list(next(iter(ways.values())))
        groups = {way: {start: found.get(start, 0) for start in starts} for way, found in ways.items()}
        title = "first token of a model from home" + (f", {model}" if model else "")
        name = "first-token" + (f"-{model}" if model else "")
        yield name, svg.bars(title, "ms", groups, ("link alone", floors[model]))


def catalogue(document):
    """How many requests had their first token after how long."""
    by_percent = document["first_token_ms"]["by_percent"]
    points = [(percent, value) for percent, value in enumerate(by_percent)]
    yield "catalogue", svg.lines("first token, share of requests", "% of requests", "ms at most",
                                 {"first token": points})


CHARTS = {"switch": switch, "catalogue": catalogue}
