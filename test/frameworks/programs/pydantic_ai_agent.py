"""pydantic-ai: "Function Tools" of its documentation."""

from mail import QUESTION, SYSTEM, read_email, search_inbox
from pydantic_ai import Agent

agent = Agent("openai:gpt-5", instructions=SYSTEM)
agent.tool_plain(search_inbox)
agent.tool_plain(read_email)

result = agent.run_sync(QUESTION)
print(result.output)
