"""LangChain: `create_agent`, as in its README."""

from langchain.agents import create_agent
from mail import QUESTION, SYSTEM, read_email, search_inbox

agent = create_agent(model="openai:gpt-5", tools=[search_inbox, read_email], system_prompt=SYSTEM)

result = agent.invoke({"messages": [{"role": "user", "content": QUESTION}]})
print(result["messages"][-1].content)
