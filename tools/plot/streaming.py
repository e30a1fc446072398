"""Charts from the JSON of `causeway bench stream --resident A,B,…`."""

import svg

SHARE = " in HBM"


def stream(document):
    """Milliseconds a decode step takes over the share of the model that HBM has, and what the link
    needs for the rest."""
    lines = {}
    for row in document["rows"]:
        if not row["start"].endswith(SHARE) or not row["figure"].startswith("decode, batch"):
            continue
        share = 100 * float(row["start"][:-len(SHARE)])
        lines.setdefault(row["figure"], []).append((share, row["measured"]))
        lines.setdefault("the link alone", {})[share] = row["limit"]
    if not lines:
        return
    lines["the link alone"] = sorted(lines["the link alone"].items())
    model = document["rows"][0]["model"]
    yield "decode", svg.lines(f"a streamed model's decode step, {model}",
                              "% of the model's bytes in HBM", "ms", lines)


CHARTS = {"stream": stream}
