"""Writes the answers of the reference, Python's jinja2, into the file of features.py. To add a case,
add a line with its source alone, and run this."""

import json

import features
import jinja_reference
from chat_template_oracle import INCOMPARABLE


def answered(env, case, source):
    answer = jinja_reference.render(jinja_reference.compile_template(env, source), features.CASE)
    if INCOMPARABLE.search(answer.get("text", "")):
        return case[:1]
    return [case[0], answer.get("text")]


def lines(cases):
    return ",\n  ".join(json.dumps(case, ensure_ascii=False) for case in cases)


def main():
    env = jinja_reference.environment()
    document = features.DOCUMENT
    expressions = [answered(env, case, features.source_of(case[0]))
                   for case in document["expressions"]]
    templates = [answered(env, case, case[0]) for case in document["templates"]]
    features.FILE.write_text(
        f'{{"variables": {json.dumps(document["variables"])},\n "expressions": [\n  {lines(expressions)}\n'
        f' ],\n "templates": [\n  {lines(templates)}\n ]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
