#!/usr/bin/env python3
"""The official `openai` client against a running server, which served.py names.

CAUSEWAY_QUEUE is how many requests the server lets wait (64 when not given). The model may be any
that has a chat template; nothing here depends on what it says.
"""

import json
import os
import re
import threading
import time
import unittest
import urllib.request
from typing import Literal

import openai
import pydantic

from openai_suite import QUESTION, Suite, make_client
from served import (API_KEY, CITIES, DRAWN, FORMED_TOKENS, MODEL, NO_KEY, PATIENCE_SECONDS,
                    ROOT_URL)

QUEUE = int(os.environ.get("CAUSEWAY_QUEUE", "64"))


def metric(name, label=""):
    """The sum of the model's series of `name` that have `label`."""
    with urllib.request.urlopen(ROOT_URL + "/metrics", timeout=PATIENCE_SECONDS) as response:
        text = response.read().decode()
    pattern = re.compile(rf"^{re.escape(name)}(?:{{(.*)}})? (\S+)$", re.M)
    return sum(float(value) for labels, value in pattern.findall(text)
               if f'model_name="{MODEL}"' in (labels or "") and label in (labels or ""))


class Models(Suite):
    def test_list_and_retrieve(self):
        models = {model.id: model for model in self.client.models.list()}
        self.assertIn(MODEL, models)
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)
        self.assertGreater(models[MODEL].max_model_len, 0)
        self.assertIn(models[MODEL].status, {"active", "ready", "loading", "unloaded"})


class Chat(Suite):
    def test_whole(self):
        answer = self.chat()
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.model, MODEL)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertIsInstance(answer.choices[0].message.content, str)
        self.assertIn(answer.choices[0].finish_reason, {"stop", "length"})
        self.assertGreater(answer.usage.prompt_tokens, 0)
        self.assertLessEqual(answer.usage.completion_tokens, 8)
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_length(self):
        answer = self.chat(max_tokens=5, extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 5)
        self.assertEqual(answer.choices[0].finish_reason, "length")
        newer = self.client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_completion_tokens=3,
            extra_body={"ignore_eos": True})
        self.assertEqual(newer.usage.completion_tokens, 3)

    def test_stream_equals_whole(self):
        parameters = {"temperature": 0, "max_tokens": 16}
        whole = self.chat(**parameters)
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}, **parameters))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-2].choices[0].finish_reason, whole.choices[0].finish_reason)
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(chunks[-1].usage.prompt_tokens, whole.usage.prompt_tokens)
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)

    def test_content_parts_equal_a_string(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": "Say something."}]}]
        self.assertEqual(self.chat(messages=parts, temperature=0).choices[0].message.content,
                         self.chat(temperature=0).choices[0].message.content)

    def test_seed_decides(self):
        parameters = {"temperature": 1.0, "max_tokens": 24, "extra_body": {"ignore_eos": True}}
        first, again = (self.chat(seed=11, **parameters) for _ in range(2))
        self.assertEqual(first.choices[0].message.content, again.choices[0].message.content)
        others = {self.chat(seed=seed, **parameters).choices[0].message.content
                  for seed in range(20, 25)}
        self.assertGreater(len(others), 1)

    def test_choices_follow_their_seeds(self):
        parameters = {"temperature": 1.0, "max_tokens": 12, "extra_body": {"ignore_eos": True}}
        both = self.chat(n=2, seed=5, **parameters)
        self.assertEqual([choice.index for choice in both.choices], [0, 1])
        # A GPU's sums depend on how many rows a step has: there, in the same company only.
        company = (2,) if os.environ.get("CAUSEWAY_TEST_DEVICE") == "cuda" else (1, 2)
        for choice, seed in zip(both.choices, (5, 6)):
            for n in company:
                first = self.chat(n=n, seed=seed, **parameters).choices[0]
                self.assertEqual(choice.message.content, first.message.content)
        self.assertEqual(both.usage.completion_tokens, 24)

    def test_stop(self):
        parameters = {"temperature": 0, "max_tokens": 32, "extra_body": {"ignore_eos": True}}
        text = self.chat(**parameters).choices[0].message.content
        stop = next((text[at:at + 2] for at in range(len(text) // 2, len(text) - 2)
                     if text[at:at + 2].strip() and "\ufffd" not in text[at:at + 2]), None)
        if stop is None:
            self.skipTest("the model's answer has nothing to stop at")
        for stream in (False, True):
            answer = self.chat(stop=[stop, "never said"], stream=stream, **parameters)
            if stream:
                chunks = [chunk for chunk in answer if chunk.choices]
                said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
                reason = chunks[-1].choices[0].finish_reason
            else:
                said = answer.choices[0].message.content
                reason = answer.choices[0].finish_reason
            self.assertEqual(said, text[:text.index(stop)])
            self.assertEqual(reason, "stop")

    def test_logprobs(self):
        answer = self.chat(logprobs=True, top_logprobs=3, temperature=0, max_tokens=4,
                           extra_body={"ignore_eos": True})
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), 4)
        for token in content:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(len(token.top_logprobs), 3)
            best = [top.logprob for top in token.top_logprobs]
            self.assertEqual(best, sorted(best, reverse=True))
            # Greedy: the chosen token is the best one.
            self.assertEqual(token.token, token.top_logprobs[0].token)
            self.assertAlmostEqual(token.logprob, best[0], places=4)
            self.assertEqual(bytes(token.bytes).decode("utf-8", "replace"), token.token)


class Completions(Suite):
    def test_prompts(self):
        one = self.complete(temperature=0)
        self.assertEqual(one.object, "text_completion")
        several = self.complete(prompt=["Once upon", "Once upon"], temperature=0)
        self.assertEqual([choice.text for choice in several.choices], [one.choices[0].text] * 2)
        self.assertEqual(several.usage.prompt_tokens, 2 * one.usage.prompt_tokens)
        ids = self.complete(prompt=[5, 6, 7])
        self.assertEqual(ids.usage.prompt_tokens, 3)
        lists = self.complete(prompt=[[5, 6, 7], [5, 6]], n=2)
        self.assertEqual(len(lists.choices), 4)
        self.assertEqual(lists.usage.prompt_tokens, 5)

    def test_stream_equals_whole(self):
        whole = self.complete(temperature=0, max_tokens=16)
        chunks = list(self.complete(temperature=0, max_tokens=16, stream=True))
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks),
                         whole.choices[0].text)
        self.assertEqual(chunks[-1].choices[0].finish_reason, whole.choices[0].finish_reason)

    def test_logprobs(self):
        answer = self.complete(logprobs=2, temperature=0, max_tokens=4,
                               extra_body={"ignore_eos": True})
        logprobs = answer.choices[0].logprobs
        self.assertEqual(len(logprobs.tokens), 4)
        self.assertEqual(len(logprobs.token_logprobs), 4)
        self.assertTrue(all(1 <= len(top) <= 3 for top in logprobs.top_logprobs))
        self.assertEqual(logprobs.text_offset[0], 0)
        self.assertEqual(logprobs.text_offset, sorted(logprobs.text_offset))


class Embeddings(Suite):
    def embed(self, input, **parameters):
        answer = self.client.embeddings.create(model=MODEL, input=input, **parameters)
        self.assertEqual([one.index for one in answer.data], list(range(len(answer.data))))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens)
        return [one.embedding for one in answer.data]

    def assert_near(self, one, other, delta=0.02):
        self.assertEqual(len(one), len(other))
        # Both have a length of 1.
        self.assertGreater(sum(a * b for a, b in zip(one, other)), 1 - delta)

    def test_forms_agree(self):
        texts = ["Once upon a time", "The lighthouse keeper counted the ships."]
        both = self.embed(texts)  # the client asks for base64
        for text, embedding in zip(texts, both):
            self.assertAlmostEqual(sum(x * x for x in embedding), 1, places=4)
            self.assert_near(embedding, self.embed(text, encoding_format="float")[0])
            ids = self.complete(prompt=text, max_tokens=1, extra_body={
                "return_token_ids": True}).choices[0].prompt_token_ids
            self.assert_near(embedding, self.embed(ids)[0])
        self.assertLess(sum(a * b for a, b in zip(*both)), 0.999)

    def test_dimensions(self):
        whole, short = (self.embed("Once upon", **more)[0] for more in ({}, {"dimensions": 3}))
        length = sum(x * x for x in whole[:3]) ** 0.5
        self.assert_near(short, [x / length for x in whole[:3]])
        for dimensions in (0, len(whole) + 1):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.embed("Once upon", dimensions=dimensions)
            self.assertEqual(caught.exception.param, "dimensions")

    def test_mean(self):
        one, mean = (self.embed([[5]], extra_body={"pooling": pooling})[0]
                     for pooling in ("last", "mean"))
        self.assert_near(one, mean)
        last, mean = (self.embed("Once upon a time", extra_body={"pooling": pooling})[0]
                      for pooling in ("last", "mean"))
        self.assertLess(sum(a * b for a, b in zip(last, mean)), 0.999)

    def test_many(self):
        texts = [f"Chapter {number}" for number in range(200)]
        many = self.embed(texts)
        for number in (0, 73, 199):
            self.assert_near(many[number], self.embed(texts[number])[0])


class Tokens(Suite):
    """Tokens by number: what a client may forbid, want, or ask for."""

    def post(self, path, **body):
        request = urllib.request.Request(
            ROOT_URL + path, json.dumps({"model": MODEL, **body}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {API_KEY}"})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
            return json.load(response)

    def test_tokenize_and_back(self):
        text = "Once upon a time, Größe 世界 👋"
        encoded = self.post("/tokenize", prompt=text, add_special_tokens=False,
                            return_token_strs=True)
        self.assertEqual(encoded["count"], len(encoded["tokens"]))
        self.assertEqual(len(encoded["token_strs"]), encoded["count"])
        self.assertEqual(encoded["max_model_len"],
                         self.client.models.retrieve(MODEL).max_model_len)
        self.assertEqual(self.post("/detokenize", tokens=encoded["tokens"])["prompt"], text)

    def test_tokenize_agrees_with_generations(self):
        chat = self.post("/tokenize", messages=QUESTION)
        answer = self.chat(max_tokens=1, extra_body={"return_token_ids": True})
        self.assertEqual(answer.prompt_token_ids, chat["tokens"])
        self.assertEqual(answer.usage.prompt_tokens, chat["count"])
        prompt = self.post("/tokenize", prompt="Once upon")
        completion = self.complete(max_tokens=1, extra_body={"return_token_ids": True})
        self.assertEqual(completion.choices[0].prompt_token_ids, prompt["tokens"])

    def test_special_tokens_may_be_left_out(self):
        for add in (True, False):
            tokens = self.post("/tokenize", prompt="Once upon", add_special_tokens=add)["tokens"]
            answer = self.complete(prompt="Once upon", max_tokens=1, extra_body={
                "add_special_tokens": add, "return_token_ids": True})
            self.assertEqual(answer.choices[0].prompt_token_ids, tokens)

    def test_token_ids(self):
        extra = {"return_token_ids": True, "ignore_eos": True}
        parameters = {"temperature": 0, "max_tokens": 6, "extra_body": extra}
        whole = self.chat(**parameters)
        ids = whole.choices[0].token_ids
        self.assertEqual(len(ids), 6)
        chunks = list(self.chat(stream=True, **parameters))
        streamed = [id for chunk in chunks for id in getattr(chunk.choices[0], "token_ids", [])]
        self.assertEqual(streamed, ids)
        self.assertEqual(chunks[0].prompt_token_ids, whole.prompt_token_ids)

    def test_bias_decides(self):
        for parameters in ({"temperature": 0}, {"temperature": 1, "seed": 3}):
            answer = self.complete(max_tokens=4, logit_bias={"65": 100}, **parameters,
                                   extra_body={"return_token_ids": True, "ignore_eos": True})
            self.assertEqual(answer.choices[0].token_ids, [65] * 4)
        best = self.complete(max_tokens=1, temperature=0,
                             extra_body={"return_token_ids": True, "ignore_eos": True})
        id = best.choices[0].token_ids[0]
        other = self.complete(max_tokens=1, temperature=0, logit_bias={str(id): -100},
                              extra_body={"return_token_ids": True, "ignore_eos": True})
        self.assertNotEqual(other.choices[0].token_ids[0], id)

    def test_bad_words(self):
        def tokens_of(word):
            return self.post("/tokenize", prompt=word, add_special_tokens=False)["tokens"]
        word = next(word for word in "abcdefghijklmnopqrstuvwxyz" if len(tokens_of(word)) == 1)
        wanted = {"max_tokens": 4, "temperature": 0, "logit_bias": {str(tokens_of(word)[0]): 100}}
        extra = {"return_token_ids": True, "ignore_eos": True}
        free = self.complete(**wanted, extra_body=extra).choices[0].token_ids
        self.assertEqual(free, tokens_of(word) * 4)
        without = self.complete(**wanted, extra_body={**extra, "bad_words": [word]})
        self.assertNotIn(tokens_of(word)[0], without.choices[0].token_ids)

    def test_bad_words_of_several_tokens(self):
        def tokens_of(word):
            return self.post("/tokenize", prompt=word, add_special_tokens=False)["tokens"]
        words = [a + b for a in "abcdefghijklmnopqrstuvwxyz" for b in "qzxjvk"]
        word = next(w for w in words if len(tokens_of(w)) == 2 and len(set(tokens_of(w))) == 2)
        first, second = tokens_of(word)
        # The first leads until it has come; its penalty then lets the second lead.
        wanted = {"max_tokens": 6, "temperature": 0, "logit_bias": {str(first): 100, str(second): 80}}
        extra = {"return_token_ids": True, "ignore_eos": True, "repetition_penalty": 2}
        free = self.complete(**wanted, extra_body=extra).choices[0].token_ids
        self.assertEqual(free[:2], [first, second])
        without = self.complete(**wanted, extra_body={**extra, "bad_words": [word]}).choices[0].token_ids
        self.assertEqual(without[0], first)
        self.assertNotIn((first, second), list(zip(without, without[1:])))

    def test_echo(self):
        alone = self.complete(temperature=0, max_tokens=4, prompt="Once upon")
        echoed = self.complete(temperature=0, max_tokens=4, prompt="Once upon", echo=True)
        self.assertEqual(echoed.choices[0].text, "Once upon" + alone.choices[0].text)

    def test_echo_with_logprobs(self):
        prompt = "Once upon a time, there was"
        parameters = {"prompt": prompt, "echo": True, "logprobs": 2, "temperature": 0}
        whole = self.complete(max_tokens=3, extra_body={"ignore_eos": True}, **parameters)
        told = whole.choices[0].logprobs
        count = whole.usage.prompt_tokens
        self.assertTrue(whole.choices[0].text.startswith(prompt))
        self.assertEqual(len(told.tokens), count + 3)
        self.assertIsNone(told.token_logprobs[0])
        self.assertIsNone(told.top_logprobs[0])
        for logprob, top in zip(told.token_logprobs[1:], told.top_logprobs[1:]):
            self.assertLessEqual(logprob, 0)
            self.assertLessEqual(logprob, max(top.values()) + 1e-6)
            self.assertIn(len(top), (1, 2, 3))
        self.assertEqual(told.text_offset[count], len(prompt))
        self.assertEqual(told.text_offset, sorted(told.text_offset))
        # What harnesses of evaluations send: the prompt alone.
        alone = self.complete(max_tokens=0, **parameters)
        self.assertEqual(alone.choices[0].text, prompt)
        self.assertEqual(alone.usage.completion_tokens, 0)
        self.assertEqual(alone.choices[0].logprobs.tokens, told.tokens[:count])
        for one, other in zip(alone.choices[0].logprobs.token_logprobs[1:],
                              told.token_logprobs[1:]):
            self.assertAlmostEqual(one, other, delta=0.1)
        chunks = list(self.complete(max_tokens=3, stream=True, extra_body={"ignore_eos": True},
                                    **parameters))
        self.assertEqual(sum((chunk.choices[0].logprobs.tokens for chunk in chunks), []),
                         told.tokens)

    def test_prompt_logprobs(self):
        answer = self.complete(prompt="Once upon a time", max_tokens=1, extra_body={
            "prompt_logprobs": 3, "return_token_ids": True})
        choice = answer.choices[0]
        self.assertEqual(len(choice.prompt_logprobs), len(choice.prompt_token_ids))
        self.assertIsNone(choice.prompt_logprobs[0])
        for id, told in zip(choice.prompt_token_ids[1:], choice.prompt_logprobs[1:]):
            self.assertIn(len(told), (3, 4))
            self.assertEqual(next(iter(told)), str(id))
            ranks = sorted(one["rank"] for one in told.values() if one["rank"] is not None)
            self.assertEqual(ranks, [1, 2, 3])
            self.assertTrue(all(one["logprob"] <= 0 for one in told.values()))
        # The same, a token at a time: the only one that is allowed.
        ids = choice.prompt_token_ids
        for at in range(1, len(ids)):
            step = self.complete(prompt=ids[:at], max_tokens=1, logprobs=0,
                                 extra_body={"allowed_token_ids": [ids[at]]})
            self.assertAlmostEqual(step.choices[0].logprobs.token_logprobs[0],
                                   choice.prompt_logprobs[at][str(ids[at])]["logprob"], delta=0.1)
        chat = self.chat(max_tokens=1, extra_body={"prompt_logprobs": 0})
        self.assertEqual(len(chat.prompt_logprobs), chat.usage.prompt_tokens)
        for extra in ({"prompt_logprobs": 21}, {"prompt_logprobs": -1}):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.complete(extra_body=extra)
            self.assertEqual(caught.exception.param, "prompt_logprobs")

    def test_allowed_tokens(self):
        allowed = [65, 66, 67]
        answer = self.complete(max_tokens=24, temperature=1, seed=1, extra_body={
            "return_token_ids": True, "ignore_eos": True, "allowed_token_ids": allowed})
        self.assertLessEqual(set(answer.choices[0].token_ids), set(allowed))
        self.assertGreater(len(set(answer.choices[0].token_ids)), 1)

    def test_min_tokens(self):
        # Every token but one ends the answer, and that one is never chosen by itself.
        extra = {"return_token_ids": True, "allowed_token_ids": [65, 66], "stop_token_ids": [66]}
        parameters = {"max_tokens": 16, "temperature": 0, "logit_bias": {"66": 100}}
        for least in (0, 1, 2, 7, 16):
            answer = self.complete(**parameters, extra_body={**extra, "min_tokens": least})
            choice = answer.choices[0]
            self.assertEqual(choice.token_ids, [65] * least)
            self.assertEqual(choice.finish_reason, "length" if least == 16 else "stop")
            chunks = list(self.complete(**parameters, stream=True,
                                        extra_body={**extra, "min_tokens": least}))
            self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), choice.text)


TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                   "required": ["city"]}}}]


class GetWeather(pydantic.BaseModel):
    """The weather of a city"""
    city: Literal[CITIES]
    tomorrow: bool


class Tools(Suite):
    def test_accepted_or_refused_by_name(self):
        try:
            answer = self.chat(tools=TOOLS, max_tokens=16)
        except openai.BadRequestError as error:
            self.assertEqual(error.param, "tools")
            self.skipTest("the model's template takes no tools")
        self.assertIn(answer.choices[0].finish_reason, {"stop", "length", "tool_calls"})
        for call in answer.choices[0].message.tool_calls or []:
            json.loads(call.function.arguments)

    def test_none_leaves_them_out(self):
        parameters = {"temperature": 0, "max_tokens": 8}
        self.assertEqual(self.chat(tools=TOOLS, tool_choice="none", **parameters).usage.prompt_tokens,
                         self.chat(**parameters).usage.prompt_tokens)

    def test_forced_calls(self):
        named = {"type": "function", "function": {"name": "get_weather"}}
        for choice in ("required", named):
            try:
                answer = self.chat(tools=TOOLS, tool_choice=choice, max_tokens=200).choices[0]
            except openai.BadRequestError as error:
                if error.param == "tools":
                    self.skipTest("the model's template takes no tools")
                self.assertEqual((error.param, error.code), ("tool_choice", "unsupported"))
                self.skipTest("this build has no XGrammar")
            if answer.finish_reason != "length":
                self.assertTrue(answer.message.tool_calls)

    def test_strict_tools_need_not_be_called(self):
        """As the client's own helpers send them; a random model begins a call when it likes to."""
        ask = {"model": MODEL, "messages": QUESTION, "max_tokens": FORMED_TOKENS, **DRAWN,
               "tools": [openai.pydantic_function_tool(GetWeather)]}
        try:
            free = self.client.chat.completions.parse(**{**ask, "max_tokens": 8})
        except openai.LengthFinishReasonError:
            free = self.client.chat.completions.create(**{**ask, "max_tokens": 8})
        except openai.BadRequestError as error:
            self.assertEqual(error.param, "tools")
            self.skipTest("the template takes no tools, or this build has no XGrammar")
        self.assertIn(free.choices[0].finish_reason, {"stop", "length", "tool_calls"})
        mark = self.client.post(ROOT_URL + "/tokenize", cast_to=dict[str, object], body={
            "model": MODEL, "prompt": "<tool_call>", "add_special_tokens": False})["tokens"]
        if len(mark) != 1:
            self.skipTest("the model has no token that begins a call")
        ask |= {"logit_bias": {str(mark[0]): 100}, "parallel_tool_calls": False}
        with self.client.chat.completions.stream(**ask, tool_choice="auto") as stream:
            kinds = {event.type for event in stream}
            streamed = stream.get_final_completion()
        self.assertIn("tool_calls.function.arguments.delta", kinds)
        for answer in (self.client.chat.completions.parse(**ask), streamed):
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            calls = answer.choices[0].message.tool_calls
            self.assertEqual(len(calls), 1)
            self.assertIsInstance(calls[0].function.parsed_arguments, GetWeather)

    def test_answers_of_tools(self):
        messages = QUESTION + [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "call_1", "type": "function",
                 "function": {"name": "get_weather", "arguments": '{"city": "Bonn"}'}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
        try:
            self.assertGreater(self.chat(messages=messages).usage.prompt_tokens, 0)
        except openai.BadRequestError as error:
            self.assertEqual(error.param, "messages")
            self.skipTest("the model's template takes no answers of tools")


# A form that says itself how an answer thinks: it begins with the mark, and so it holds from the
# first token on.
THINKING = {"regex": "<think>\\n[ab ]{20,40}c\\n</think>\\n\\n[de]{5,9}f"}


class Reasoning(Suite):
    """Of a model whose template knows thinking, else skipped."""

    def think(self, **parameters):
        extra = {"structured_outputs": THINKING, **parameters.pop("extra_body", {})}
        try:
            answer = self.chat(max_tokens=200, extra_body=extra, **parameters)
        except openai.BadRequestError as error:
            self.assertEqual(error.code, "unsupported")
            self.skipTest("this build has no XGrammar")
        return answer

    def whole(self, **parameters):
        answer = self.think(**parameters)
        if answer.usage.completion_tokens_details is None:
            self.skipTest("the model's template knows no thinking")
        return answer

    def test_thinking_is_parted(self):
        answer = self.whole(temperature=0)
        message, usage = answer.choices[0].message, answer.usage
        self.assertRegex(message.reasoning_content, r"^[ab][ab ]*c$|^c$")
        self.assertRegex(message.content, r"^[de]{5,9}f$")
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        thought = usage.completion_tokens_details.reasoning_tokens
        self.assertTrue(0 < thought < usage.completion_tokens, usage)
        reasoning, content = "", ""
        for chunk in self.think(temperature=0, stream=True,
                                stream_options={"include_usage": True}):
            if not chunk.choices:
                self.assertEqual(chunk.usage.completion_tokens_details.reasoning_tokens, thought)
                continue
            delta = chunk.choices[0].delta
            reasoning += getattr(delta, "reasoning_content", None) or ""
            content += delta.content or ""
        self.assertEqual((reasoning, content), (message.reasoning_content, message.content))

    def test_thinking_is_left_out(self):
        told = self.whole(temperature=0)
        left_out = self.whole(temperature=0, logprobs=True, extra_body={"include_reasoning": False})
        message = left_out.choices[0].message
        self.assertIsNone(getattr(message, "reasoning_content", None))
        self.assertEqual(message.content, told.choices[0].message.content)
        self.assertEqual(left_out.usage.completion_tokens, told.usage.completion_tokens)
        self.assertEqual(left_out.usage.completion_tokens_details,
                         told.usage.completion_tokens_details)
        answered = (left_out.usage.completion_tokens -
                    left_out.usage.completion_tokens_details.reasoning_tokens)
        self.assertEqual(len(left_out.choices[0].logprobs.content), answered)

    def test_prompts_that_open_it(self):
        self.whole()  # or this is skipped
        answer = self.chat(extra_body={"chat_template_kwargs": {"thinking": True},
                                       "ignore_eos": True})
        message = answer.choices[0].message
        if message.reasoning_content is None:
            self.skipTest("the model's template has no such switch")
        self.assertIsNone(message.content)
        self.assertEqual(answer.usage.completion_tokens_details.reasoning_tokens,
                         answer.usage.completion_tokens)
        # A form holds behind the thinking, and from the first token on where there is none.
        choice = {"choice": ["yes", "no"]}
        formed = self.chat(max_tokens=20, extra_body={"chat_template_kwargs": {"thinking": True},
                                                      "structured_outputs": choice})
        self.assertIn(formed.choices[0].message.content, {"yes", "no", None})
        formed = self.chat(extra_body={"structured_outputs": choice})
        self.assertIn(formed.choices[0].message.content, {"yes", "no"})

    def test_it_goes_back_in(self):
        for name in ("reasoning_content", "reasoning"):
            messages = QUESTION + [{"role": "assistant", "content": "4", name: "so it is"}]
            self.assertGreater(self.chat(messages=messages).usage.prompt_tokens, 0)


class Errors(Suite):
    def test_unknown_model(self):
        for model in ("nobody", "/etc/passwd", "../" + MODEL):
            with self.assertRaises(openai.NotFoundError) as caught:
                self.chat(model=model)
            self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("nobody")

    def test_bad_fields_are_named(self):
        bad = {"temperature": 9, "top_p": 0, "max_tokens": 0, "n": 0, "stop": [""],
               "logit_bias": {"5": 101},
               "tools": "f", "tool_choice": "required"}
        for name, value in bad.items():
            with self.assertRaises(openai.BadRequestError) as caught:
                self.chat(**{name: value})
            self.assertEqual(caught.exception.param, name)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(extra_body={"no_such_field": 1})
        self.assertEqual(caught.exception.param, "no_such_field")

    def test_over_long_prompt(self):
        length = self.client.models.retrieve(MODEL).max_model_len
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete(prompt=[5] * (length + 1))
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_key(self):
        if API_KEY == NO_KEY:
            self.skipTest("CAUSEWAY_API_KEY is not set")
        with make_client("wrong-key") as stranger, self.assertRaises(openai.AuthenticationError):
            stranger.models.list()

    def test_full_queue(self):
        answers, errors = [], []

        def ask():
            with make_client() as client:
                try:
                    answers.append(client.completions.create(
                        model=MODEL, prompt="a", n=128, max_tokens=64,
                        extra_body={"ignore_eos": True}))
                except openai.APIError as error:
                    errors.append(error)

        # As many at once as fill the queue eight times over, and what may run at a time.
        threads = [threading.Thread(target=ask) for _ in range(max(16, QUEUE // 16))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(errors, "the queue never filled")
        for error in errors:
            self.assertIsInstance(error, openai.RateLimitError)
            self.assertGreaterEqual(int(error.response.headers["retry-after"]), 1)
        # The refused choices are being cancelled; a client that comes back when told to is served.
        patient = self.client.with_options(max_retries=10)
        answer = patient.completions.create(model=MODEL, prompt="a", max_tokens=8)
        self.assertEqual(len(answer.choices), 1)


class Disconnect(Suite):
    def wait_until(self, condition, what):
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def test_leaving_a_stream_cancels(self):
        def aborted():
            return metric("causeway:request_success_total", 'finished_reason="abort"')

        before = aborted()
        length = self.client.models.retrieve(MODEL).max_model_len
        with self.chat(stream=True, max_tokens=length - 100,
                       extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
        self.wait_until(lambda: aborted() > before, "the request was not aborted")
        self.wait_until(lambda: metric("causeway:num_requests_running") == 0,
                        "the engine still runs it")


if __name__ == "__main__":
    unittest.main(verbosity=2)
