"""LlamaIndex: `FunctionAgent`, as in its README."""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from mail import QUESTION, SYSTEM, read_email, search_inbox

llm = OpenAI(model="gpt-5", api_base=os.environ["OPENAI_BASE_URL"])
agent = FunctionAgent(tools=[search_inbox, read_email], llm=llm, system_prompt=SYSTEM)


async def main():
    print(await agent.run(user_msg=QUESTION))


asyncio.run(main())
