#!/usr/bin/env python3
"""Structured outputs end to end: answers that must have a form have it, whatever the model is like
(these are random), and forms that cannot be compiled harm nobody. Standard library only."""

import http.client
import json
import os
import re
import signal
import socket
import statistics
import tempfile
import threading
import time
import unittest
from pathlib import Path

from running_server import TINY_MEMORY, RunningServer, make_model, name_token, run_causeway

SCHEMA = {"type": "object", "additionalProperties": False,
          "properties": {"name": {"type": "string", "maxLength": 12},
                         "size": {"enum": ["small", "large"]},
                         "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}},
          "required": ["name", "size", "tags"]}
TEMPLATE = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
            "{{ m.role }}: {{ m.content }}\n{% endfor %}{# <tool_call> #}")
TOOLS = [{"type": "function", "function": {"name": "paint", "parameters": {
    "type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}}},
         {"type": "function", "function": {"name": "stop"}}]
MISTRAL_TEMPLATE = TEMPLATE.replace("<tool_call>", "[TOOL_CALLS]")
STRICT_TOOLS = [{"type": "function", "function": {**tool["function"], "strict": True}}
                for tool in TOOLS]
# What calls of them say.
CALLS = {("paint", ("colour", "red")), ("paint", ("colour", "blue")), ("stop",)}


PATIENCE_SECONDS = 120  # for a form to be compiled, however busy the machine is
COMPILE_SECONDS = 5     # after which the server gives one up


class PatientServer(RunningServer):
    """Is asked again where a form was not compiled in time, as the error advises: what is compiled
    late is kept."""

    def request(self, *arguments, **more):
        limit = time.monotonic() + PATIENCE_SECONDS
        while True:
            status, answer = self.request_once(*arguments, **more)
            late = status == 400 and re.search(r"takes longer than \d+ ms to compile", str(answer))
            if not late or time.monotonic() > limit:
                return status, answer
            time.sleep(0.2)

    def request_once(self, *arguments, **more):
        return super().request(*arguments, **more)


def deep(depth):
    schema = {"type": "integer"}
    for _ in range(depth - 1):
        schema = {"items": schema}
    return schema


def conforms(value):
    """What SCHEMA says."""
    return (set(value) == {"name", "size", "tags"} and len(value["name"]) <= 36  # a broken character is three
            and value["size"] in ("small", "large") and len(value["tags"]) <= 3
            and all(isinstance(tag, bool) for tag in value["tags"]))


@unittest.skipUnless("XGrammar: on" in run_causeway("--version").stdout, "built without XGrammar")
class Forms(unittest.TestCase):
    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = Path(cls.folder.name)
        name_token(make_model(root / "model"), "<tool_call>")
        (root / "model" / "chat_template.jinja").write_text(TEMPLATE)
        cls.server = PatientServer(root / "model", "--served-model-name", "m",
                                   *TINY_MEMORY, *cls.arguments)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def complete(self, seed=1, **form):
        answer = self.server.complete("m", "Say", max_tokens=300, temperature=1.0, seed=seed, **form)
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop", choice)
        return choice["text"]

    def refused(self, timeout=60, **form):
        status, answer = self.server.request_once(
            "/v1/completions", {"model": "m", "prompt": "Say", **form}, timeout=timeout)
        self.assertEqual(status, 400, answer)
        return answer["error"]["param"]

    def test_schemas(self):
        for seed in range(6):
            text = self.complete(seed, response_format={
                "type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}})
            self.assertTrue(conforms(json.loads(text)), text)

    def test_greedy(self):
        text = self.server.complete("m", "Say", max_tokens=300, temperature=0,
                                    structured_outputs={"json": SCHEMA})["choices"][0]["text"]
        self.assertTrue(conforms(json.loads(text)), text)

    def test_other_forms(self):
        for seed in range(4):
            self.assertIn(self.complete(seed, structured_outputs={"choice": ["yes", "no", "é\n"]}),
                          {"yes", "no", "é\n"})
            self.assertTrue(re.fullmatch("[a-c]{2,5}-x?",
                                         self.complete(seed, guided_regex="[a-c]{2,5}-x?")))
            grammar = 'root ::= "<" inner ">"\ninner ::= "a" | "(" inner ")"\n'
            self.assertTrue(re.fullmatch(r"<\(*a\)*>",
                                         self.complete(seed, guided_grammar=grammar)))

    def test_any_object(self):
        for seed in range(12):
            answer = self.server.complete("m", "Say", max_tokens=400, temperature=1.0, seed=seed,
                                          response_format={"type": "json_object"})
            choice = answer["choices"][0]
            self.assertTrue(choice["text"].startswith("{"), choice)
            if choice["finish_reason"] == "stop":
                self.assertIsInstance(json.loads(choice["text"]), dict)

    def test_streams_and_several_choices(self):
        body = {"model": "m", "prompt": "Say", "max_tokens": 300, "temperature": 1.0, "seed": 3,
                "guided_json": SCHEMA, "n": 3}
        _, whole = self.server.request("/v1/completions", body)
        texts = ["", "", ""]
        for event in self.server.stream("/v1/completions", body):
            for choice in event["choices"]:
                texts[choice["index"]] += choice["text"]
        self.assertEqual(texts, [choice["text"] for choice in whole["choices"]])
        for text in texts:
            self.assertTrue(conforms(json.loads(text)), text)

    def test_company(self):
        """Others decode beside it, free of any form, and several forms at once."""
        texts = {}

        def ask(index):
            form = {} if index % 2 else {"guided_json": SCHEMA}
            answer = self.server.complete("m", f"Say {index}", max_tokens=200, temperature=1.0,
                                          seed=index, **form)
            texts[index] = answer["choices"][0]
        threads = [threading.Thread(target=ask, args=(index,)) for index in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for index in range(0, 12, 2):
            if texts[index]["finish_reason"] == "stop":
                self.assertTrue(conforms(json.loads(texts[index]["text"])), texts[index])

    def test_forced_calls(self):
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS,
                "max_tokens": 400, "temperature": 1.0}
        for seed in range(4):
            status, answer = self.server.request("/v1/chat/completions", {
                **body, "seed": seed, "tool_choice": "required", "parallel_tool_calls": False,
                "tools": STRICT_TOOLS if seed % 2 == 1 else TOOLS})
            self.assertEqual(status, 200, answer)
            if answer["choices"][0]["finish_reason"] == "length":
                continue
            calls = answer["choices"][0]["message"]["tool_calls"]
            self.assertEqual(len(calls), 1)
            call = calls[0]["function"]
            self.assertIn((call["name"], *json.loads(call["arguments"]).items()), CALLS)
        _, answer = self.server.request("/v1/chat/completions", {
            **body, "tool_choice": {"type": "function", "function": {"name": "paint"}}})
        call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
        self.assertEqual(call["name"], "paint")
        self.assertIn(json.loads(call["arguments"])["colour"], {"red", "blue"})

    def call_token(self):
        status, answer = self.server.request("/tokenize", {
            "model": "m", "prompt": "<tool_call>", "add_special_tokens": False})
        self.assertEqual((status, answer["count"]), (200, 1), answer)
        return str(answer["tokens"][0])

    def test_calls_of_strict_tools(self):
        """A model that likes to begin a call, at random within its form."""
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": 1.0,
                "tools": STRICT_TOOLS, "max_tokens": 400}
        status, free = self.server.request("/v1/chat/completions", {**body, "max_tokens": 30})
        self.assertEqual(status, 200, free)
        self.assertFalse(free["choices"][0]["message"].get("tool_calls"))
        calls, several = [], 0
        for seed in range(8):
            likes = {**body, "seed": seed, "logit_bias": {self.call_token(): 100},
                     "parallel_tool_calls": seed % 2 == 1}
            status, answer = self.server.request("/v1/chat/completions", likes)
            self.assertEqual(status, 200, answer)
            choice = answer["choices"][0]
            made = choice["message"].get("tool_calls") or []
            calls += [call["function"] for call in made]
            several += len(made) > 1
            if seed % 2 == 0 and choice["finish_reason"] != "length":
                self.assertEqual((len(made), choice["finish_reason"]), (1, "tool_calls"))
                self.assertIsNone(choice["message"]["content"])
        self.assertGreater(len(calls), 4)
        self.assertGreater(several, 0)
        for call in calls:
            self.assertIn((call["name"], *json.loads(call["arguments"]).items()), CALLS)
        deep_tool = {"type": "function", "function": {
            "name": "f", "strict": True, "parameters": deep(33)}}
        status, answer = self.server.request("/v1/chat/completions", {**body, "tools": [deep_tool]})
        self.assertEqual((status, answer["error"]["param"]), (400, "tools[0].function.parameters"))

    def test_hostile_forms(self):
        form = {"type": "json_schema", "json_schema": {"schema": deep(33)}}
        self.assertEqual(self.refused(response_format=form), "response_format.json_schema")
        self.assertEqual(self.refused(guided_json={"title": "x" * 100_000}), "guided_json")
        self.assertEqual(self.refused(guided_json={"$ref": "#"}), "guided_json")
        self.assertEqual(self.refused(guided_regex="((x{1,100}){1,100}){1,100}"), "guided_regex")
        self.assertEqual(self.refused(guided_regex="(" * 33 + "a" + ")" * 33), "guided_regex")
        self.assertEqual(self.refused(guided_grammar='root ::= ("a"'), "guided_grammar")
        self.assertEqual(self.refused(guided_json={"title": "x" * 5_000_000}), "guided_json")
        self.assertEqual(self.refused(guided_regex="a", ignore_eos=True), "ignore_eos")

    def first_byte_seconds(self, connection):
        """Of a stream's answer."""
        body = json.dumps({"model": "m", "prompt": "Say", "max_tokens": 1, "stream": True})
        begin = time.monotonic()
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        took = time.monotonic() - begin
        self.assertEqual(response.status, 200)
        response.read()
        return took

    def test_slow_forms_delay_nobody(self):
        """While forms are compiled that take as long as they may, others get their first token."""
        slow = [{"guided_json": {"type": "object", "properties": {
            f"k{i}_{j}": {"type": "string", "maxLength": 9000 + i} for j in range(60)}}}
                for i in range(4)]
        ends = []
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        before = [self.first_byte_seconds(connection) for _ in range(300)]

        def ask(form):
            begin = time.monotonic()
            status, answer = self.server.request_once(
                "/v1/completions", {"model": "m", "prompt": "Say", "max_tokens": 2, **form})
            ends.append((status, time.monotonic() - begin, answer))
        threads = [threading.Thread(target=ask, args=(form,)) for form in slow]
        for thread in threads:
            thread.start()
        times = []
        while any(thread.is_alive() for thread in threads) and len(times) < 2000:
            times.append(self.first_byte_seconds(connection))
        for thread in threads:
            thread.join()
        for status, took, answer in ends:
            self.assertIn(status, (200, 400), answer)
            self.assertLess(took, 4 * COMPILE_SECONDS)
        after = sorted(self.first_byte_seconds(connection) for _ in range(300))
        connection.close()
        p99 = [sorted_times[len(sorted_times) * 99 // 100]
               for sorted_times in (sorted(before + after), sorted(times))]
        print(f"time to first byte, p99: {p99[0] * 1e3:.2f} ms, {p99[1] * 1e3:.2f} ms beside forms "
              f"that are compiled ({len(times)} requests)")
        # Wanted is less than a millisecond at p99, on a machine that does nothing else. On any, a
        # compilation that a token waited for would take seconds.
        self.assertLess(max(times), COMPILE_SECONDS / 2)
        self.assertLess(statistics.median(times) - statistics.median(before + after), 0.1)

    def test_leaving_while_it_is_compiled(self):
        form = {"guided_json": {"type": "object", "properties": {
            f"left{j}": {"type": "string", "maxLength": 9999} for j in range(80)}}}
        body = json.dumps({"model": "m", "prompt": "Say", **form}).encode()
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", self.server.port)) as client:
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: "
                               b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                time.sleep(0.1)
        self.assertEqual(self.complete(guided_regex="abc"), "abc")


@unittest.skipUnless("XGrammar: on" in run_causeway("--version").stdout, "built without XGrammar")
class MistralCalls(unittest.TestCase):
    """Calls with a mark of their own behind the name, of a model that has both marks as tokens."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        model = make_model(Path(cls.folder.name) / "model")
        name_token(model, "[TOOL_CALLS]")
        name_token(model, "[ARGS]", instead_of="<|start_header_id|>")
        (model / "chat_template.jinja").write_text(MISTRAL_TEMPLATE)
        cls.server = PatientServer(model, "--served-model-name", "m", *TINY_MEMORY)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def token(self, text):
        _, answer = self.server.request("/tokenize", {
            "model": "m", "prompt": text, "add_special_tokens": False})
        self.assertEqual(answer["count"], 1, answer)
        return answer["tokens"][0]

    def calls(self, **more):
        """Of an answer that had room for its end, else none. Each has a tool's form."""
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": 1.0,
                "tools": STRICT_TOOLS, "max_tokens": 400, **more}
        status, answer = self.server.request("/v1/chat/completions", body)
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        made = [call["function"] for call in choice["message"].get("tool_calls") or []]
        pieces = {}
        for event in self.server.stream("/v1/chat/completions", body):
            for delta in event["choices"][0]["delta"].get("tool_calls", []):
                call = pieces.setdefault(delta["index"], {"name": "", "arguments": ""})
                for part, text in delta["function"].items():
                    call[part] += text
        if choice["finish_reason"] == "length":
            return []
        self.assertEqual(list(pieces.values()), made)
        for call in made:
            self.assertIn((call["name"], *json.loads(call["arguments"]).items()), CALLS)
        return made

    def test_forced(self):
        likes = {str(self.token("[TOOL_CALLS]")): 4}
        several = 0
        for seed in range(6):
            several += len(self.calls(seed=seed, tool_choice="required", logit_bias=likes)) > 1
            one = self.calls(seed=seed, tool_choice="required", parallel_tool_calls=False)
            self.assertLessEqual(len(one), 1)
        self.assertGreater(several, 0)
        named = {"type": "function", "function": {"name": "paint"}}
        self.assertIn([call["name"] for call in self.calls(seed=7, tool_choice=named)],
                      (["paint"], []))

    def test_in_free_text(self):
        likes = {str(self.token("[TOOL_CALLS]")): 100}
        made = [self.calls(seed=seed, logit_bias=likes, parallel_tool_calls=False)
                for seed in range(6)]
        self.assertGreater(sum(map(len, made)), 2)

    def test_its_second_mark_is_a_token(self):
        """That is special, and stays in the text that the parser reads."""
        status, answer = self.server.request("/v1/chat/completions", {
            "model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": 1.0,
            "tools": STRICT_TOOLS, "max_tokens": 400, "tool_choice": "required", "seed": 1,
            "return_token_ids": True, "parallel_tool_calls": False,
            "logit_bias": {str(self.token(mark)): 100 for mark in ("[TOOL_CALLS]", "[ARGS]")}})
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        self.assertIn(self.token("[ARGS]"), choice["token_ids"])
        self.assertEqual(len(choice["message"]["tool_calls"]), 1)


@unittest.skipUnless("XGrammar: on" in run_causeway("--version").stdout, "built without XGrammar")
class FormsBehindThinking(unittest.TestCase):
    """Of a model that has both marks of thinking as tokens, and opens it itself or has it opened."""
    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        model = make_model(Path(cls.folder.name) / "model")
        name_token(model, "<think>")
        name_token(model, "</think>", instead_of="<|start_header_id|>")
        (model / "chat_template.jinja").write_text(
            TEMPLATE + "{% if thinking is true %}<think>{% endif %}"
            "{% if thinking is false %}<think></think>{% endif %}")
        cls.server = PatientServer(model, "--served-model-name", "m", *TINY_MEMORY, *cls.arguments)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def token(self, text):
        _, answer = self.server.request("/tokenize", {
            "model": "m", "prompt": text, "add_special_tokens": False})
        self.assertEqual(answer["count"], 1, answer)
        return answer["tokens"][0]

    def choice(self, likes, thinking, **more):
        """`likes`: the mark that is chosen wherever it may come."""
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": 1.0,
                "max_tokens": 60, "logit_bias": {str(self.token(likes)): 100},
                "chat_template_kwargs": {"thinking": thinking}, "return_token_ids": True, **more}
        if "tools" not in more:
            body["guided_regex"] = "(yes|no)!"
        status, answer = self.server.request("/v1/chat/completions", body)
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]

    def test_opened_by_the_prompt(self):
        for seed in range(4):
            choice = self.choice("</think>", True, seed=seed)
            self.assertEqual(choice["token_ids"][0], self.token("</think>"))
            self.assertRegex(choice["message"]["content"], "^(yes|no)!$")
            self.assertEqual(choice["finish_reason"], "stop")

    def test_opened_by_the_model(self):
        choice = self.choice("<think>", None)
        self.assertEqual(choice["token_ids"][0], self.token("<think>"))
        self.assertIsNone(choice["message"]["content"])
        self.assertEqual(choice["finish_reason"], "length", "it thinks until it is cut")
        # Where it prefers the mark that closes, which cannot come first, it answers.
        self.assertRegex(self.choice("</think>", None)["message"]["content"] or "yes!",
                         "^(yes|no)!$")

    def test_closed_by_the_prompt(self):
        for mark in ("<think>", "</think>"):
            choice = self.choice(mark, False)
            self.assertRegex(choice["message"]["content"], "^(yes|no)!$")
            self.assertNotIn(self.token(mark), choice["token_ids"])

    def test_forced_calls(self):
        choice = self.choice("</think>", True, tools=TOOLS, tool_choice="required",
                             parallel_tool_calls=False, max_tokens=400)
        self.assertEqual(choice["token_ids"][0], self.token("</think>"))
        if choice["finish_reason"] != "length":
            self.assertEqual(len(choice["message"]["tool_calls"]), 1)


class FormsBehindThinkingInWorkers(FormsBehindThinking):
    arguments = ("--isolate",)


class FormsInWorkers(Forms):
    """The same with the slice in a process of its own, where forms are compiled again."""
    arguments = ("--isolate",)

    def test_an_answer_goes_on_after_its_worker_was_killed(self):
        schema = {"type": "array", "items": {"enum": list(range(10))}, "minItems": 400,
                  "maxItems": 400}
        body = {"model": "m", "prompt": "Say", "max_tokens": 1800, "temperature": 1.0, "seed": 4,
                "guided_json": schema, "stream": True}
        self.server.request("/v1/completions", {**body, "stream": False, "max_tokens": 1})  # compiles
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        connection.request("POST", "/v1/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        text, killed = "", False
        for line in connection.getresponse():
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            self.assertIn("choices", event, event)
            text += event["choices"][0]["text"]
            if not killed and len(text) > 20:
                killed = True
                tasks = Path(f"/proc/{self.server.process.pid}/task").iterdir()
                children = {pid for task in tasks
                            for pid in (task / "children").read_text().split()}
                self.assertEqual(len(children), 1)
                os.kill(int(children.pop()), signal.SIGKILL)
        connection.close()
        self.assertTrue(killed)
        self.assertEqual(len(json.loads(text)), 400)
        self.assertTrue(any("worker" in line for line in self.server.log))


if __name__ == "__main__":
    unittest.main()
