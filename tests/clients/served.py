"""The server that tests of clients talk to, as with_server.py names it in the environment, and what
they say to it. Its model may be any with a chat template that shows tools; nothing depends on what
it answers."""

import importlib
import os
import sys

BASE_URL = os.environ["CAUSEWAY_BASE_URL"]
ROOT_URL = BASE_URL.removesuffix("/v1")
MODEL = os.environ["CAUSEWAY_MODEL"]
NO_KEY = "none"  # what clients send that must have a key, to a server that asks for none
API_KEY = os.environ.get("CAUSEWAY_API_KEY") or NO_KEY
PATIENCE_SECONDS = 60
# So that random models end what they say in a form within FORMED_TOKENS: between the parts of JSON
# they may write 32 spaces each time.
SIZES = ("small", "large")
CITIES = ("Bonn", "Oslo")
FORMED_TOKENS = 1500
# The most probable token of a random model may be white space for ever.
DRAWN = {"temperature": 1, "seed": 1}
# A request with it is refused by a build that cannot have answers in a form.
ANY_FORM = {"guided_regex": "a"}
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"enum": list(CITIES)}},
                   "required": ["city"], "additionalProperties": False}}}
SKIPPED = 77


def need(*modules):
    """Ends the test as skipped where a client's package is missing."""
    try:
        for module in modules:
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        print(f"skipped: this Python has no {error.name}; `scripts/test setup` installs what "
              "tests/clients/requirements.txt lists")
        sys.exit(SKIPPED)
