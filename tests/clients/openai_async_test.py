#!/usr/bin/env python3
"""The official `openai` client where it is asynchronous, and its helpers: answers parsed into types,
streams of tool calls."""

import asyncio
import json
import unittest
from typing import Literal

import openai
import pydantic

from served import (ANY_FORM, API_KEY, BASE_URL, CITIES, DRAWN, FORMED_TOKENS, MODEL,
                    PATIENCE_SECONDS, SIZES, TOOL)

QUESTION = [{"role": "user", "content": "Say something."}]


class Answer(pydantic.BaseModel):
    size: Literal[SIZES]
    hot: bool


class Suite(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.client = openai.AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0,
                                         timeout=PATIENCE_SECONDS)

    async def asyncTearDown(self):
        await self.client.close()

    def chat(self, number=0, **parameters):
        question = [{"role": "user", "content": f"Say something {number}."}]
        settings = {"model": MODEL, "messages": question, "max_tokens": 12, "temperature": 0,
                    **parameters}
        return self.client.chat.completions.create(**settings)


class Plain(Suite):
    async def test_many_at_once(self):
        answers = await asyncio.gather(*(self.chat(number) for number in range(12)))
        for number, answer in enumerate(answers):
            again = await self.chat(number)
            self.assertEqual(answer.choices[0].message.content, again.choices[0].message.content)

    async def test_streams_equal_whole_answers(self):
        async def streamed(number):
            text = ""
            async for chunk in await self.chat(number, stream=True):
                text += chunk.choices[0].delta.content or ""
            return text
        texts = await asyncio.gather(*(streamed(number) for number in range(12)))
        for number, text in enumerate(texts):
            self.assertEqual(text, (await self.chat(number)).choices[0].message.content)

    async def test_a_stream_may_be_left(self):
        async with await self.chat(stream=True, max_tokens=200,
                                   extra_body={"ignore_eos": True}) as stream:
            async for _ in stream:
                break
        self.assertTrue((await self.chat()).choices)

    async def test_embeddings(self):
        texts = [f"Chapter {number}" for number in range(20)]
        together, *alone = await asyncio.gather(
            self.client.embeddings.create(model=MODEL, input=texts),
            *(self.client.embeddings.create(model=MODEL, input=text) for text in texts))
        for one, other in zip(together.data, alone):
            self.assertGreater(sum(a * b for a, b in zip(one.embedding, other.data[0].embedding)),
                               0.98)

    async def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            await self.chat(model="nobody")
        with self.assertRaises(openai.BadRequestError) as caught:
            await self.chat(temperature=9)
        self.assertEqual(caught.exception.param, "temperature")


class Formed(Suite):
    """Answers that must have a form."""

    async def asyncSetUp(self):
        try:
            await self.chat(extra_body=ANY_FORM)
        except openai.BadRequestError:
            self.skipTest("this build has no XGrammar")

    async def test_answers_are_parsed_into_types(self):
        answer = await self.client.chat.completions.parse(
            model=MODEL, messages=QUESTION, response_format=Answer, max_tokens=FORMED_TOKENS,
            **DRAWN)
        self.assertIsInstance(answer.choices[0].message.parsed, Answer)

    async def test_streams_are_parsed_into_types(self):
        async with self.client.chat.completions.stream(
                model=MODEL, messages=QUESTION, response_format=Answer,
                max_tokens=FORMED_TOKENS, **DRAWN) as stream:
            kinds = {event.type async for event in stream}
            final = await stream.get_final_completion()
        self.assertIn("content.done", kinds)
        self.assertIsInstance(final.choices[0].message.parsed, Answer)

    async def test_calls_are_streamed(self):
        name, arguments, ids, reason = "", "", set(), None
        async for chunk in await self.chat(tools=[TOOL], tool_choice="required", stream=True,
                                           max_tokens=FORMED_TOKENS, parallel_tool_calls=False, **DRAWN):
            choice = chunk.choices[0]
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or []:
                self.assertEqual(call.index, 0)
                ids |= {call.id} - {None}
                name += call.function.name or ""
                arguments += call.function.arguments or ""
        self.assertEqual((name, reason, len(ids)), ("get_weather", "tool_calls", 1))
        self.assertIn(json.loads(arguments)["city"], CITIES)

    async def test_helper_gathers_streamed_calls(self):
        async with self.client.chat.completions.stream(
                model=MODEL, messages=QUESTION, tools=[TOOL], max_tokens=FORMED_TOKENS, **DRAWN,
                tool_choice={"type": "function", "function": {"name": "get_weather"}}) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_completion()
        done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
        self.assertTrue(done)
        call = final.choices[0].message.tool_calls[0]
        self.assertEqual(done[0].arguments, call.function.arguments)
        self.assertIn(json.loads(call.function.arguments)["city"], CITIES)


if __name__ == "__main__":
    unittest.main(verbosity=2)
