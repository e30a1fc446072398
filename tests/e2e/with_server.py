#!/usr/bin/env python3
"""Runs a command against a real server: `with_server.py COMMAND…`.

The command sees CAUSEWAY_BASE_URL (…/v1), CAUSEWAY_MODEL and CAUSEWAY_API_KEY.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from running_server import TINY_MEMORY, RunningServer, make_model, name_token

API_KEY = "test-key"

# As the tiny model's own, and it shows tools, calls and thinking as models of the Qwen family are
# shown them. With `thinking` it opens the thinking of the answer.
CHAT_TEMPLATE = """
{%- if tools %}
    {{- '<|im_start|>system\\n<tools>' + (tools | tojson) + '</tools> Answer <tool_call>{...}' }}
    {{- '</tool_call> to call one.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.reasoning_content %}
        {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- message.content }}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
        {{- (call.function.arguments | tojson) + '}</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if thinking %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "tiny")
        name_token(model, "<tool_call>")
        template = Path(folder) / "tools.jinja"
        template.write_text(CHAT_TEMPLATE)
        with RunningServer(model, "--api-key", API_KEY, "--max-queue", "64", "--chat-template",
                           template, "--response-store-bytes", "1MiB",
                           *TINY_MEMORY) as server:
            environment = {**os.environ, "CAUSEWAY_BASE_URL": server.url + "/v1",
                           "CAUSEWAY_MODEL": "tiny", "CAUSEWAY_API_KEY": API_KEY}
            return subprocess.run(sys.argv[1:], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
