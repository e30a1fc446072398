"""Charts from the JSON of `causeway replay`."""

import svg

FIGURES = (("load", "requests", "requests",
            (("arrivals", "arrived"), ("attained", "of these, kept both targets"), ("running", "running"))),
           ("ttft", "first token", "ms", (("ttft_most_ms", "longest"), ("ttft_mean_ms", "mean"))))


def replay(document):
    """Over time: how many came, kept their targets and ran; how long they waited for the first token."""
    length = document["slot_s"]
    for figure, title, unit, fields in FIGURES:
        lines = {name: [(length * i, slot[field]) for i, slot in enumerate(document["slots"])]
                 for field, name in fields}
        each = "" if length == 1 else f", each {length:g} s"
        if document["slots"]:
            yield f"replay-{document['mode']}-{figure}", svg.lines(
                f"{title}, {document['source']}", f"s{each}", unit, lines)


def beside(documents):
    """The longest wait for the first token of each slot; `documents`: name → a run of the same list."""
    lengths = {document["slot_s"] for document in documents.values()}
    if len(lengths) != 1:
        raise ValueError(f"runs of one list have slots of one length, these have {sorted(lengths)} s")
    length = lengths.pop()
    lines = {name: [(length * i, slot["ttft_most_ms"]) for i, slot in enumerate(document["slots"])]
             for name, document in documents.items()}
    yield "replay-beside", svg.lines("longest wait for a first token, by the second of arrival",
                                     "s" if length == 1 else f"s, each {length:g} s", "ms", lines)


CHARTS = {"replay": replay}
