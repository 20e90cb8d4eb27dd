"""smolagents: CodeAgent, as in its README."""

from mail import QUESTION, SYSTEM, read_email, search_inbox
from smolagents import CodeAgent, OpenAIModel, tool

model = OpenAIModel(model_id="gpt-5")
agent = CodeAgent(tools=[tool(search_inbox), tool(read_email)], model=model, instructions=SYSTEM, max_steps=2)

print(agent.run(QUESTION))
