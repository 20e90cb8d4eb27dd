"""Inspect has the model of a server call a tool, and read its result. Prints the conversation as JSON.

Arguments: the server's base URL, and a folder for Inspect's logs.
"""

import json
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool


@tool
def find():
    async def execute(word: str) -> str:
        """Finds a word.

        Args:
            word: The word to find.
        """
        return f"found {word}"

    return execute


url, logs = sys.argv[1:]
model = get_model("openai-api/hone/tiny", base_url=url, api_key="none")
sample = Sample(input="Find the otter", target="otter")
task = Task(dataset=[sample], solver=[use_tools(find(), tool_choice="any"), generate()], scorer=includes())
[log] = eval(task, model=model, log_dir=logs, display="none", max_tokens=300, message_limit=6, seed=1)
messages = log.samples[0].messages if log.samples else []
calls = [call for message in messages for call in getattr(message, "tool_calls", None) or []]
json.dump(
    {
        "status": log.status,
        "error": log.error and log.error.message,
        "roles": [message.role for message in messages],
        "calls": [[call.function, call.arguments, call.parse_error] for call in calls],
        "results": [message.text for message in messages if message.role == "tool"],
    },
    sys.stdout,
)
