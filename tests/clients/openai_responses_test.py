#!/usr/bin/env python3
"""The official `openai` client's `responses` against a running server, which served.py
names; its model may be any that has a chat template."""

import asyncio
import json
import unittest
from typing import Literal

import openai
import pydantic

from openai_suite import QUESTION, Suite
from served import API_KEY, BASE_URL, MODEL, PATIENCE_SECONDS


class Colour(pydantic.BaseModel):
    """What responses.parse asks for."""
    colour: Literal["red", "blue"]


CITY_TOOL = {"type": "function", "name": "get_weather", "description": "The weather of a city",
             "strict": None, "parameters": {
                 "type": "object", "properties": {"city": {"enum": ["Bonn", "Köln"]}},
                 "required": ["city"], "additionalProperties": False}}


class Responses(Suite):
    def respond(self, **parameters):
        settings = {"model": MODEL, "input": "Say something.", "max_output_tokens": 8, **parameters}
        return self.client.responses.create(**settings)

    def first_complete(self, ask):
        """Of answers with several seeds: a random model may fill any room with white space."""
        for seed in range(8):
            try:
                answer = ask(seed)
            except openai.BadRequestError as error:
                if error.param == "tools":
                    self.skipTest("the model's template takes no tools")
                self.assertEqual(error.code, "unsupported", error)
                self.skipTest("this build has no XGrammar")
            if answer is not None:
                return answer
        self.fail("no answer came to its end")

    def test_response_whole(self):
        answer = self.respond(metadata={"project": "causeway"}, store=True, temperature=0)
        self.assertEqual(answer.object, "response")
        self.assertIn(answer.status, {"completed", "incomplete"})
        self.assertEqual(answer.metadata, {"project": "causeway"})
        self.assertEqual(answer.temperature, 0)
        chat = self.chat(temperature=0)
        self.assertEqual(answer.output_text, chat.choices[0].message.content)
        self.assertEqual(answer.usage.input_tokens, chat.usage.prompt_tokens)
        self.assertEqual(answer.usage.output_tokens, chat.usage.completion_tokens)
        self.assertEqual(answer.usage.total_tokens, chat.usage.total_tokens)
        self.assertGreaterEqual(answer.usage.input_tokens_details.cached_tokens, 0)
        self.assertEqual(answer.usage.output_tokens_details.reasoning_tokens, 0)

    def test_response_stream_equals_whole(self):
        parameters = {"model": MODEL, "input": "Say something.", "max_output_tokens": 16,
                      "temperature": 0, "extra_body": {"ignore_eos": True}}
        whole = self.client.responses.create(**parameters)
        events = list(self.client.responses.create(stream=True, **parameters))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual([event.type for event in events[:4]], [
            "response.created", "response.in_progress", "response.output_item.added",
            "response.content_part.added"])
        self.assertEqual([event.type for event in events[-4:]], [
            "response.output_text.done", "response.content_part.done",
            "response.output_item.done", "response.incomplete"])
        text = "".join(event.delta for event in events
                       if event.type == "response.output_text.delta")
        self.assertEqual(text, whole.output_text)
        self.assertEqual(events[-1].response.output_text, text)
        self.assertEqual(events[-1].response.incomplete_details.reason, "max_output_tokens")
        self.assertEqual(events[-1].response.usage.output_tokens, 16)

    def test_response_stream_helper(self):
        # The end token is the only one that is allowed behind the second.
        parameters = {"model": MODEL, "input": "Say something.", "temperature": 0,
                      "extra_body": {"allowed_token_ids": [65, 66], "stop_token_ids": [66],
                                     "logit_bias": {"66": 100}, "min_tokens": 2}}
        with self.client.responses.stream(**parameters) as stream:
            snapshots = [event.snapshot for event in stream
                         if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
        self.assertEqual(final.status, "completed")
        self.assertEqual(final.usage.output_tokens, 2)  # the end is not counted
        self.assertEqual(snapshots[-1:], [final.output_text] if final.output_text else [])

    def test_items_equal_a_text(self):
        alone = self.respond(temperature=0)
        for content in ("Say something.", [{"type": "input_text", "text": "Say something."}]):
            items = [{"role": "user", "content": content}]
            self.assertEqual(self.respond(input=items, temperature=0).output_text,
                             alone.output_text)
        told = self.respond(instructions="Be brief.", temperature=0)
        chat = self.chat(temperature=0,
                         messages=[{"role": "system", "content": "Be brief."}] + QUESTION)
        self.assertEqual(told.output_text, chat.choices[0].message.content)
        self.assertEqual(told.instructions, "Be brief.")
        # What was said is sent back as it came.
        more = self.respond(input=[{"role": "user", "content": "Say something."}, *alone.output,
                                   {"role": "user", "content": "And again."}])
        self.assertGreater(more.usage.input_tokens, alone.usage.input_tokens)

    def test_response_logprobs(self):
        answer = self.respond(max_output_tokens=4, temperature=0, top_logprobs=2,
                              include=["message.output_text.logprobs"],
                              extra_body={"ignore_eos": True})
        logprobs = answer.output[0].content[0].logprobs
        self.assertEqual(len(logprobs), 4)
        for token in logprobs:
            self.assertEqual(len(token.top_logprobs), 2)
            self.assertEqual(token.token, token.top_logprobs[0].token)

    def test_response_parse(self):
        def ask(seed):
            try:
                return self.client.responses.parse(
                    model=MODEL, input="Name a colour.", text_format=Colour,
                    max_output_tokens=200, extra_body={"seed": seed})
            except pydantic.ValidationError:
                return None  # cut short
        answer = self.first_complete(ask)
        self.assertIn(answer.output_parsed.colour, {"red", "blue"})
        self.assertEqual(json.loads(answer.output_text)["colour"], answer.output_parsed.colour)

    def test_response_reasoning(self):
        # A form that says itself how an answer thinks.
        asked = {"max_output_tokens": 200, "temperature": 0, "extra_body": {"structured_outputs": {
            "regex": "<think>\\n[ab]{5,9}c\\n</think>\\n\\n[de]{5,9}f"}}}
        try:
            whole = self.respond(**asked)
        except openai.BadRequestError as error:
            self.assertEqual(error.code, "unsupported", error)
            self.skipTest("this build has no XGrammar")
        if "<think>" in whole.output_text:
            self.skipTest("the model's template knows no thinking")
        self.assertEqual([item.type for item in whole.output], ["reasoning", "message"])
        thought = whole.output[0].content[0].text
        self.assertRegex(thought, "^[ab]{5,9}c$")
        self.assertRegex(whole.output_text, "^[de]{5,9}f$")
        details = whole.usage.output_tokens_details
        self.assertTrue(0 < details.reasoning_tokens < whole.usage.output_tokens, whole.usage)
        with self.client.responses.stream(model=MODEL, input="Say something.", **asked) as stream:
            pieces = [event.delta for event in stream
                      if event.type == "response.reasoning_text.delta"]
            final = stream.get_final_response()
        self.assertEqual("".join(pieces), thought)
        self.assertEqual(final.output_text, whole.output_text)
        # What was thought goes back in, too.
        more = self.respond(input=[{"role": "user", "content": "Say something."}, *whole.output,
                                   {"role": "user", "content": "And again."}])
        self.assertGreater(more.usage.input_tokens, whole.usage.input_tokens)

    def test_response_calls(self):
        question = {"role": "user", "content": "How is the weather?"}

        def ask(seed):
            with self.client.responses.stream(
                    model=MODEL, input=[question], tools=[CITY_TOOL], tool_choice="required",
                    parallel_tool_calls=False, max_output_tokens=200,
                    extra_body={"seed": seed}) as stream:
                events = list(stream)
                if events[-1].type != "response.completed":
                    return None
                return events, stream.get_final_response()
        events, final = self.first_complete(ask)
        self.assertEqual([item.type for item in final.output], ["function_call"])
        call = final.output[0]
        self.assertEqual(call.name, "get_weather")
        self.assertIn(json.loads(call.arguments)["city"], {"Bonn", "Köln"})
        pieces = [event for event in events
                  if event.type == "response.function_call_arguments.delta"]
        self.assertEqual("".join(piece.delta for piece in pieces), call.arguments)
        self.assertEqual(pieces[-1].snapshot, call.arguments)
        answer = self.respond(tools=[CITY_TOOL], input=[
            question, *final.output,
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
        self.assertGreater(answer.usage.input_tokens, final.usage.input_tokens)

    def test_strict_tools_need_not_be_called(self):
        answer = self.first_complete(lambda seed: self.respond(
            tools=[{**CITY_TOOL, "strict": True}], extra_body={"seed": seed}))
        self.assertTrue(answer.tools[0].strict)
        self.assertIn(answer.status, {"completed", "incomplete"})

    def test_responses_are_kept(self):
        first = self.respond(instructions="Be brief.", temperature=0)
        if not first.store:
            self.skipTest("the server was started without --response-store-bytes")
        self.assertEqual(self.client.responses.retrieve(first.id).to_dict(), first.to_dict())
        second = self.respond(input="And again.", previous_response_id=first.id, temperature=0)
        self.assertEqual(second.previous_response_id, first.id)
        told = self.respond(temperature=0, input=[
            {"role": "user", "content": "Say something."}, *first.output,
            {"role": "user", "content": "And again."}])
        self.assertEqual(second.usage.input_tokens, told.usage.input_tokens)
        self.assertEqual(second.output_text, told.output_text)
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(first.id)
        # What goes on from it has a copy of its own.
        third = self.respond(input="More.", previous_response_id=second.id)
        self.assertGreater(third.usage.input_tokens, second.usage.input_tokens)
        unkept = self.respond(store=False)
        self.assertFalse(unkept.store)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.respond(previous_response_id=unkept.id)
        self.assertEqual(caught.exception.param, "previous_response_id")

    def test_what_is_not_there_is_refused(self):
        for more in ({"previous_response_id": "resp_1"}, {"conversation": "conv_1"},
                     {"prompt": {"id": "pmpt_1"}}, {"background": True}):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.respond(**more)
            self.assertEqual(caught.exception.param, next(iter(more)))
        for ask in (self.client.responses.retrieve, self.client.responses.cancel):
            with self.assertRaises(openai.NotFoundError):
                ask("resp_1")

    def test_response_errors_are_named(self):
        bad = {"temperature": 9, "max_output_tokens": 0, "input": [], "truncation": "auto",
               "metadata": {"a": 1}}
        for name, value in bad.items():
            with self.assertRaises(openai.BadRequestError) as caught:
                self.respond(**{name: value})
            self.assertEqual(caught.exception.param, name)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.respond(tools=[{"type": "web_search"}])
        self.assertEqual(caught.exception.param, "tools[0].type")

    def test_async_stream(self):
        async def ask():
            async with openai.AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY,
                                          timeout=PATIENCE_SECONDS) as client:
                stream = await client.responses.create(
                    model=MODEL, input="Say something.", max_output_tokens=8, temperature=0,
                    stream=True)
                return [event async for event in stream]
        events = asyncio.run(ask())
        self.assertEqual(events[-1].response.output_text, self.respond(temperature=0).output_text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
