"""Templates, one for each feature of the language, with the variables that they see. Each is rendered
by the reference and by the C++ implementation, which must agree; make_feature_cases.py writes the
reference's answers into a C++ test as well."""

import feature_calls
import feature_filters
import feature_layout
import feature_markup
import feature_operators
import feature_statements

CASE = {
    "messages": [
        {"role": "system", "content": "Be brief. "},
        {"role": "user", "content": "Grüße, 世界! 👋\n"},
        {"role": "assistant", "content": None,
         "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [1.5, None, True]}}}]},
        {"role": "tool", "content": "<r>'\"&\\</r>"},
        {"role": "user", "content": [{"type": "text", "text": "parts"}]},
    ],
    "tools": [{"type": "function", "function": {
        "name": "f", "description": "d\u00e9j\u00e0 \u2028 vu",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": []}}}],
    "extra": {
        "s": "Hello, World", "empty": "", "u": "añ日😀b", "n": 42, "neg": -7, "f": 2.5, "big": 1e22,
        "yes": True, "no": False, "nil": None, "lst": [3, 1, 2], "words": ["pear", "Apple", "fig"],
        "nested": [[1, 2], [3, 4]], "d": {"b": 2, "a": 1, "items": "own", "x y": {"z": [0, 1]}},
        "recs": [{"k": "b", "v": 2, "on": True}, {"k": "A", "v": 1}, {"k": "c", "v": 3, "on": False}],
        "lines": "one\ntwo\r\n\nfour", "spaces": " \t\u3000pad\u00a0 \n",
    },
    "add_generation_prompt": True,
    "bos_token": "<s>",
    "eos_token": "</s>",
}

# The tables of answers (make_feature_cases.py) have them in this order.
EXPRESSIONS = [expression
               for theme in (feature_operators, feature_filters, feature_calls, feature_markup,
                             feature_layout)
               for expression in theme.EXPRESSIONS]
TEMPLATES = feature_statements.TEMPLATES


def sources():
    return ["{{ " + expression + " }}" for expression in EXPRESSIONS] + TEMPLATES
