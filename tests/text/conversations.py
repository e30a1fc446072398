"""Random conversations for chat templates: what clients send, in every shape that templates meet."""

import random

WORDS = ["hello", "Grüße", "世界", "👋🏽", "<|im_end|>", "<think>", "</think>", "{{ x }}", "'q'", '"dq"',
         "tab\t", "line\n", "\n\n", "  ", "\u2028", "back\\slash", "é", "&<>", "1.5", "<tool_response>"]
NAMES = ["get_weather", "search", "f", "größe"]


def text(rng, most=8):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))


def value(rng, depth=0):
    kinds = ["s", "i", "f", "b", "n"] + (["l", "d"] if depth < 3 else [])
    kind = rng.choice(kinds)
    if kind == "s":
        return text(rng, 3)
    if kind == "i":
        return rng.choice([0, -1, 7, 2**31, 2**63 - 1, -2**63, 2**64 - 1, rng.randint(-1000, 1000)])
    if kind == "f":
        return rng.choice([0.5, -0.0, 1e22, 1e-7, 123456.789, rng.uniform(-10, 10), 1e300])
    if kind == "b":
        return rng.random() < 0.5
    if kind == "n":
        return None
    if kind == "l":
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {text(rng, 1) + str(i): value(rng, depth + 1) for i in range(rng.randint(0, 3))}


def tool(rng):
    properties = {f"p{i}": {"type": rng.choice(["string", "integer"]), "description": text(rng),
                            "default": value(rng)} for i in range(rng.randint(0, 3))}
    return {"type": "function", "function": {
        "name": rng.choice(NAMES), "description": text(rng),
        "parameters": {"type": "object", "properties": properties,
                       "required": list(properties)[:1]}}}


def tool_call(rng):
    call = {"name": rng.choice(NAMES),
            "arguments": rng.choice([{"a": value(rng)}, {}, text(rng), '{"a": 1}'])}
    if rng.random() < 0.8:
        return {"id": "c1", "type": "function", "function": call}
    return call


def message(rng, role):
    result = {"role": role}
    shape = rng.random()
    if shape < 0.75:
        result["content"] = text(rng, 12)
    elif shape < 0.85:
        result["content"] = [{"type": "text", "text": text(rng)} for _ in range(rng.randint(0, 2))]
    elif shape < 0.93:
        result["content"] = None
    if role == "assistant":
        if rng.random() < 0.3:
            result["tool_calls"] = [tool_call(rng) for _ in range(rng.choice([1, 1, 1, 2, 0]))]
        if rng.random() < 0.2:
            result["reasoning_content"] = text(rng)
        if rng.random() < 0.2 and isinstance(result.get("content"), str):
            result["content"] = "<think>\n" + text(rng) + "\n</think>\n\n" + result["content"]
    return result


def conversation(rng):
    roles = ["system"] if rng.random() < 0.6 else []
    for _ in range(rng.randint(0, 4)):
        roles += rng.choice([["user", "assistant"], ["user"], ["user", "assistant", "tool"],
                             ["user", "assistant", "tool", "tool", "assistant"], ["assistant"],
                             ["ipython"]])
    if rng.random() < 0.7:
        roles.append("user")
    return [message(rng, role) for role in roles]


EXTRA = [("enable_thinking", [True, False]), ("date_string", ["1 Jan 2025"]),
         ("tools_in_user_message", [True, False]), ("builtin_tools", [["code_interpreter", "x"], []]),
         ("custom_tools", [None])]


def case(rng):
    result = {"messages": conversation(rng), "add_generation_prompt": rng.random() < 0.6}
    if rng.random() < 0.4:
        result["tools"] = [tool(rng) for _ in range(rng.randint(0, 3))]
    extra = {name: rng.choice(values) for name, values in EXTRA if rng.random() < 0.15}
    if extra:
        result["extra"] = extra
    if rng.random() < 0.8:
        result["bos_token"] = rng.choice(["<s>", "<|begin_of_text|>"])
        result["eos_token"] = rng.choice(["</s>", "<|eot_id|>"])
    return result


def cases(seed, count):
    rng = random.Random(seed)
    return [case(rng) for _ in range(count)]
