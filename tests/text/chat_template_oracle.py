"""Compares the C++ chat templates with Python's jinja2: each feature of the language, random
expressions and templates, and random conversations over real templates and generated ones.

  chat_template_oracle.py PATH/TO/render_template [--seed N] [--count N]

Real templates are read from $CAUSEWAY_TEST_DATA, and left out, saying so, when it is not set.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import warnings

import jinja2

import conversations
import expressions
import features
import jinja_reference

# What only Python's own objects print: addresses, and ranges by their ends.
INCOMPARABLE = re.compile(r"<[a-z_ A-Z.]+ (object )?at 0x|<generator|<built-in|<bound method|"
                          r"<function|<Macro|iterator object|range\(\d|functools|<class", re.I)
# Python's generators fail when they are used, ours when they are made: no difference once they are.
LAZY = re.compile(r"\|\s*(map|select|reject|selectattr|rejectattr|items|batch|unique)\b")
# A generator printed, and then only a part or a property of what it prints.
LAZY_TEXT = re.compile(LAZY.pattern + r".*(\||\.)\s*(title|wordcount|capitalize|indent|string|trim|"
                       r"replace|upper|lower|length|count|first|split)")
# Ours are 127 bits; and Jinja drops errors of constant slices like (1)[2:] while it compiles.
TOLERATED = re.compile(r"127 bits|too large|cannot be sliced")

# A template as models without published ones in the test data have it.
GENERATED = {
    "generated/chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
                        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
                        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "generated/inst": "{{ bos_token }}{% for message in messages %}"
                      "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
                      "{{ raise_exception('roles must alternate user/assistant/...') }}{% endif %}"
                      "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + "
                      "' [/INST]' }}{% elif message['role'] == 'assistant' %}"
                      "{{ message['content'] | trim + eos_token }}{% endif %}{% endfor %}",
    "generated/parts": "{%- macro show(m) %}{%- if m.content is string %}{{ m.content }}"
                       "{%- else %}{%- for p in m.content %}{%- if p.type == 'text' %}{{ p.text }}"
                       "{%- endif %}{%- endfor %}{%- endif %}{%- endmacro %}\n"
                       "{%- for m in messages %}{{ loop.index }} {{ m.role }}: {{ show(m) }}\n"
                       "{% generation %}{{ m | tojson }}{% endgeneration %}\n{%- endfor %}"
                       "{{ tools | tojson(indent=2) }}{{ messages }}",
}


def real_templates():
    data = os.environ.get("CAUSEWAY_TEST_DATA")
    if not data:
        print("CAUSEWAY_TEST_DATA is not set: real templates are left out")
        return {}
    found = {}
    for path in sorted(glob.glob(os.path.join(data, "templates", "*.jinja"))):
        with open(path, encoding="utf-8", newline="") as file:
            found[os.path.basename(path)] = file.read()
    for path in sorted(glob.glob(os.path.join(data, "tokenizers", "*", "tokenizer_config.json"))):
        with open(path, encoding="utf-8") as file:
            source = json.load(file).get("chat_template")
        if isinstance(source, str):
            found["/".join(path.split(os.sep)[-2:])] = source
    if not found:
        sys.exit(f"no chat template below {data}")
    return found


def requests(seed, count):
    """(templates, cases): what both sides render."""
    templates = {}
    cases = []
    for group in (features.sources(), expressions.sources(seed, 20 * count)):
        for source in group:
            name = f"{len(templates)}: {source}"
            templates[name] = source
            cases.append(dict(features.CASE, template=name, now=jinja_reference.NOW))
    for name, source in {**GENERATED, **real_templates()}.items():
        templates[name] = source
        for case in conversations.cases(seed, count):
            cases.append(dict(case, template=name, now=jinja_reference.NOW))
    return templates, cases


def agrees(source, want, got):
    if "error" in got and LAZY.search(source):
        return True
    if "error" in got and TOLERATED.search(got["error"]):
        return True
    if "error" in want or "error" in got:
        return ("error" in want) == ("error" in got) or bool(
            INCOMPARABLE.search(want.get("text", "")))
    if want["text"] == got["text"] or INCOMPARABLE.search(want["text"]):
        return True
    return bool(LAZY_TEXT.search(source))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    options = parser.parse_args()
    warnings.simplefilter("ignore", SyntaxWarning)  # about (1)[2:] and its like
    print(f"jinja2 {jinja2.__version__}, seed {options.seed}")
    templates, cases = requests(options.seed, options.count)
    answer = subprocess.run([options.program], input=json.dumps({"templates": templates, "cases": cases}),
                            capture_output=True, encoding="utf-8", timeout=300, check=True)
    answers = json.loads(answer.stdout)
    env = jinja_reference.environment()
    compiled = {name: jinja_reference.compile_template(env, text) for name, text in templates.items()}
    different = rendered = 0
    for case, got in zip(cases, answers, strict=True):
        want = jinja_reference.render(compiled[case["template"]], case)
        rendered += "text" in want
        if agrees(templates[case["template"]], want, got):
            continue
        different += 1
        if different <= 20:
            print(f"--- {case['template']}\n    want {want!r:.600}\n    got  {got!r:.600}")
    print(f"{len(cases)} cases, {rendered} of them render, {different} differ")
    return 1 if different or rendered < len(cases) // 3 else 0


if __name__ == "__main__":
    sys.exit(main())
