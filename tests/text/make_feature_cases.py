"""Writes the answers of the reference for every template of features.py as C++ tables, so that the
unit tests check them without Python:

  make_feature_cases.py 1 > src/text/jinja/feature_cases_test.cc
  make_feature_cases.py 2 > src/text/jinja/feature_cases_2_test.cc
"""

import json
import sys

import features
import jinja_reference
from chat_template_oracle import INCOMPARABLE


def literal(text):
    """A C++ string literal of the text's bytes, in pieces that stay within 100 columns."""
    pieces = [""]
    for byte in text.encode():
        character = chr(byte)
        if character in '"\\':
            piece = "\\" + character
        elif character == "\n":
            piece = "\\n"
        elif 32 <= byte < 127:
            piece = character
        else:
            piece = f"\\{byte:03o}"
        if len(pieces[-1]) + len(piece) > 80:
            pieces.append("")
        pieces[-1] += "\\?" if piece == "?" and pieces[-1].endswith("?") else piece
    return "\n     ".join(f'"{piece}"' for piece in pieces)


def main():
    env = jinja_reference.environment()
    rows = []
    for source in features.sources():
        answer = jinja_reference.render(jinja_reference.compile_template(env, source), features.CASE)
        if INCOMPARABLE.search(answer.get("text", "")):
            continue
        wanted = literal(answer["text"]) if "text" in answer else "kFails"
        row = f"    {{{literal(source)}, {wanted}}},\n"
        if "\n" in row[:-1] or len(row) > 100:
            row = f"    {{{literal(source)},\n     {wanted}}},\n"
        rows.append(row)
    first = sys.argv[1] == "1"
    rows = rows[:len(rows) // 2] if first else rows[len(rows) // 2:]
    print("// Written by tests/text/make_feature_cases.py from the answers of Python's jinja2: not by hand.")
    print('#include "text/jinja/feature_cases.h"\n\nnamespace causeway::text::jinja {\nnamespace {\n')
    print("// clang-format off")
    print("constexpr FeatureCase kCases[] = {\n" + "".join(rows) + "};")
    if first:
        print(f"\nconstexpr const char* kVariables =\n    {literal(json.dumps(features.CASE))};")
    print("// clang-format on\n\n}  // namespace\n")
    name = "feature_cases" if first else "more_feature_cases"
    print(f"std::span<const FeatureCase> {name}() {{ return kCases; }}")
    if first:
        print("const char* feature_variables() { return kVariables; }")
    print("\n}  // namespace causeway::text::jinja")


if __name__ == "__main__":
    main()
