"""A small agent: a loop, one tool, and OpenAI's API. With the `openai` package it uses that, else urllib.

Reads the scenario from stdin and writes one line of JSON, which task.ts rewards.
"""

import json
import os
import re
import sys
import urllib.request

TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "How many pieces of one kind of fruit the shop has.",
        "parameters": {
            "type": "object",
            "properties": {"fruit": {"type": "string", "description": "in the plural, such as apples"}},
            "required": ["fruit"],
        },
    },
}
TURNS = 5


def ask(messages):
    """The model's next message."""
    request = {"model": "hone", "messages": messages, "tools": [TOOL]}
    try:
        from openai import OpenAI
    except ImportError:
        return ask_without_package(request)
    # The address and the key come from the environment.
    return OpenAI().chat.completions.create(**request).choices[0].message.model_dump(exclude_none=True)


def ask_without_package(request):
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"}
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(request).encode(), headers)) as answer:
        return json.load(answer)["choices"][0]["message"]


def main():
    scenario = json.load(sys.stdin)
    looked_up = []
    messages = [
        {"role": "system", "content": "You count a shop's fruit. Look up each kind, then answer with the sum alone."},
        {"role": "user", "content": scenario["question"]},
    ]
    answer = None
    for _ in range(TURNS):
        message = ask(messages)
        messages.append(message)
        calls = message.get("tool_calls") or []
        if not calls:
            numbers = re.findall(r"\d+", message.get("content") or "")
            answer = int(numbers[-1]) if numbers else None
            break
        for call in calls:
            fruit = json.loads(call["function"]["arguments"]).get("fruit")
            known = call["function"]["name"] == "look_up" and fruit in scenario["stock"]
            if known:
                looked_up.append(fruit)
            result = {"pieces": scenario["stock"][fruit]} if known else {"error": "there is no such fruit"}
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
    print(json.dumps({"answer": answer, "looked_up": looked_up}))


main()
