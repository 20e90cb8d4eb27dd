"""smolagents: ToolCallingAgent, as in its "Building good agents"."""

from mail import QUESTION, SYSTEM, read_email, search_inbox
from smolagents import OpenAIModel, ToolCallingAgent, tool

model = OpenAIModel(model_id="gpt-5")
agent = ToolCallingAgent(tools=[tool(search_inbox), tool(read_email)], model=model, instructions=SYSTEM, max_steps=2)

print(agent.run(QUESTION))
