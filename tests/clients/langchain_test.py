#!/usr/bin/env python3
"""LangChain, by langchain-openai: chats, responses and completions, whole, streamed and in batches;
typed answers; tools; embeddings."""

import os
import unittest
from typing import Literal

from served import (ANY_FORM, API_KEY, BASE_URL, CITIES, DRAWN, FORMED_TOKENS, MODEL,
                    PATIENCE_SECONDS, SIZES, need)

need("langchain_openai")
os.environ["LANGSMITH_TRACING"] = "false"

import openai  # noqa: E402
import pydantic  # noqa: E402
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings  # noqa: E402

QUESTIONS = [f"Say something {number}." for number in range(6)]
SERVER = {"model": MODEL, "base_url": BASE_URL, "api_key": API_KEY, "max_retries": 0,
          "timeout": PATIENCE_SECONDS}


class Answer(pydantic.BaseModel):
    """What was asked for."""
    size: Literal[SIZES]
    hot: bool


@tool
def get_weather(city: Literal[CITIES]) -> str:
    """The weather of a city"""
    return f"sunny in {city}"


def chat(**parameters):
    return ChatOpenAI(**{**SERVER, "temperature": 0, "max_tokens": 12, **parameters})


class Chats(unittest.IsolatedAsyncioTestCase):
    def test_invoke(self):
        answer = chat().invoke([SystemMessage("Be brief."), HumanMessage(QUESTIONS[0])])
        self.assertIsInstance(answer, AIMessage)
        self.assertIsInstance(answer.content, str)
        self.assertIn(answer.response_metadata["finish_reason"], {"stop", "length"})
        self.assertGreater(answer.usage_metadata["input_tokens"], 0)
        self.assertLessEqual(answer.usage_metadata["output_tokens"], 12)

    def test_stream_equals_invoke(self):
        for question in QUESTIONS[:3]:
            pieces = list(chat(stream_usage=True).stream(question))
            whole = chat().invoke(question)
            self.assertEqual("".join(piece.content for piece in pieces), whole.content)
            told = sum((piece.usage_metadata or {}).get("output_tokens", 0) for piece in pieces)
            self.assertEqual(told, whole.usage_metadata["output_tokens"])

    def test_batch_equals_invoke(self):
        together = chat().batch(QUESTIONS)
        self.assertEqual([answer.content for answer in together],
                         [chat().invoke(question).content for question in QUESTIONS])

    async def test_async(self):
        whole = (await chat().ainvoke(QUESTIONS[0])).content
        pieces = [piece.content async for piece in chat().astream(QUESTIONS[0])]
        self.assertEqual("".join(pieces), whole)
        together = await chat().abatch(QUESTIONS)
        self.assertEqual(together[0].content, whole)

    def test_parameters(self):
        model = chat(temperature=1, top_p=0.9, seed=7, n=1, stop=["\n\n\n"], presence_penalty=0.1,
                     frequency_penalty=0.1, logprobs=True, top_logprobs=2)
        answer = model.invoke(QUESTIONS[0])
        self.assertEqual(answer.content, model.invoke(QUESTIONS[0]).content)
        self.assertTrue(answer.response_metadata["logprobs"]["content"])

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            chat(model="nobody").invoke("x")
        with self.assertRaises(openai.AuthenticationError):
            chat(api_key="wrong").invoke("x")


class Formed(unittest.TestCase):
    """Answers that must have a form, of a random model."""

    def setUp(self):
        try:
            chat(extra_body=ANY_FORM).invoke("x")
        except openai.BadRequestError:
            self.skipTest("this build has no XGrammar")
        self.chat = chat(max_tokens=FORMED_TOKENS, **DRAWN)

    def test_structured_output(self):
        for method in ("json_schema", "function_calling"):
            answer = self.chat.with_structured_output(Answer, method=method).invoke(QUESTIONS[0])
            self.assertIsInstance(answer, Answer, method)

    def test_structured_output_in_batches(self):
        answers = self.chat.with_structured_output(Answer).batch(QUESTIONS)
        self.assertTrue(all(isinstance(answer, Answer) for answer in answers))

    def test_tools_are_called_and_answered(self):
        bound = self.chat.bind_tools([get_weather], tool_choice="any", parallel_tool_calls=False)
        messages = [HumanMessage(QUESTIONS[0])]
        asked = bound.invoke(messages)
        self.assertTrue(asked.tool_calls)
        self.assertFalse(asked.invalid_tool_calls)
        messages.append(asked)
        for call in asked.tool_calls:
            self.assertEqual(call["name"], "get_weather")
            answer = get_weather.invoke(call)
            self.assertIsInstance(answer, ToolMessage)
            self.assertIn(answer.content, [f"sunny in {city}" for city in CITIES])
            messages.append(answer)
        self.assertIsInstance(chat().bind_tools([get_weather]).invoke(messages), AIMessage)

    def test_strict_tools_need_not_be_called(self):
        bound = chat().bind_tools([get_weather], strict=True)
        self.assertIsInstance(bound.invoke(QUESTIONS[0]), AIMessage)
        pieces = list(bound.stream(QUESTIONS[0]))
        self.assertTrue(pieces)
        for call in bound.invoke(QUESTIONS[1]).tool_calls:
            self.assertIn(call["args"]["city"], CITIES)

    def test_calls_are_streamed(self):
        bound = self.chat.bind_tools([get_weather], tool_choice="get_weather")
        gathered = None
        for piece in bound.stream(QUESTIONS[0]):
            gathered = piece if gathered is None else gathered + piece
        self.assertEqual(gathered.tool_calls[0]["name"], "get_weather")
        self.assertIn(gathered.tool_calls[0]["args"]["city"], CITIES)


    def test_json_mode(self):
        # A random model need not come to the end of an object that may hold anything.
        asked = self.chat.with_structured_output(Answer, method="json_mode", include_raw=True)
        raw = asked.invoke(QUESTIONS[0])["raw"]
        self.assertTrue(raw.content.startswith("{"), raw)


class Responses(unittest.TestCase):
    """The same by /v1/responses, where LangChain has it."""

    def test_invoke_and_stream(self):
        model = chat(use_responses_api=True)
        whole = model.invoke(QUESTIONS[0])
        self.assertEqual(whole.text, chat().invoke(QUESTIONS[0]).content)
        self.assertGreater(whole.usage_metadata["input_tokens"], 0)
        gathered = None
        for piece in model.stream(QUESTIONS[0]):
            gathered = piece if gathered is None else gathered + piece
        self.assertEqual(gathered.text, whole.text)
        more = model.invoke([HumanMessage(QUESTIONS[0]), whole, HumanMessage(QUESTIONS[1])])
        self.assertGreater(more.usage_metadata["input_tokens"],
                           whole.usage_metadata["input_tokens"])

    def test_tools_and_structured_output(self):
        model = chat(use_responses_api=True, max_tokens=FORMED_TOKENS,
                     temperature=DRAWN["temperature"], extra_body={"seed": DRAWN["seed"]})
        try:
            bound = model.bind_tools([get_weather], tool_choice="get_weather")
            asked = bound.invoke(QUESTIONS[0])
        except openai.BadRequestError as error:
            self.assertEqual(error.code, "unsupported", error)
            self.skipTest("this build has no XGrammar")
        self.assertEqual(asked.tool_calls[0]["name"], "get_weather")
        messages = [HumanMessage(QUESTIONS[0]), asked, get_weather.invoke(asked.tool_calls[0])]
        self.assertIsInstance(chat(use_responses_api=True).invoke(messages), AIMessage)
        answer = model.with_structured_output(Answer).invoke(QUESTIONS[0])
        self.assertIsInstance(answer, Answer)


class Others(unittest.TestCase):
    def test_completions(self):
        model = OpenAI(**SERVER, temperature=0, max_tokens=12)
        whole = model.invoke("Once upon")
        self.assertIsInstance(whole, str)
        self.assertEqual("".join(model.stream("Once upon")), whole)
        self.assertEqual(model.batch(["Once upon"] * 3), [whole] * 3)

    def test_embeddings(self):
        # Texts go as they are; the client's own count of tokens is of OpenAI's models.
        model = OpenAIEmbeddings(**SERVER, check_embedding_ctx_length=False)
        together = model.embed_documents(QUESTIONS)
        self.assertEqual(len(together), len(QUESTIONS))
        alone = model.embed_query(QUESTIONS[2])
        self.assertGreater(sum(a * b for a, b in zip(together[2], alone)), 0.98)


if __name__ == "__main__":
    unittest.main(verbosity=2)
