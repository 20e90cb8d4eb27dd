"""Anthropic's SDK: its tool runner, as in "Tool use"."""

from anthropic import Anthropic, beta_tool
from mail import QUESTION, SYSTEM, read_email, search_inbox

client = Anthropic()
runner = client.beta.messages.tool_runner(
    model="claude-opus-5-5",
    max_tokens=1024,
    system=SYSTEM,
    tools=[beta_tool(search_inbox), beta_tool(read_email)],
    messages=[{"role": "user", "content": QUESTION}],
)
for message in runner:
    print(message.content)
