"""The mail task as an agent in Python, without a package: it reads the task from stdin and writes what came of it."""

import json
import os
import sys
import urllib.request

ABOUT = json.load(sys.stdin)


def ask(messages):
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"}
    body = json.dumps({"model": "any", "messages": messages, "tools": ABOUT["tools"]}).encode()
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


def fits(name, arguments):
    """As strict as the built-in loop: nothing missing, nothing unknown, everything of its type."""
    schema = next((tool["function"]["parameters"] for tool in ABOUT["tools"] if tool["function"]["name"] == name), None)
    if schema is None or any(key not in arguments for key in schema["required"]):
        return False
    types = {"string": str, "array": list}
    return all(
        key in schema["properties"]
        and isinstance(value, types[schema["properties"][key]["type"]])
        and (not isinstance(value, list) or all(isinstance(item, str) for item in value))
        for key, value in arguments.items()
    )


def play():
    messages = [{"role": "system", "content": ABOUT["system"]}, {"role": "user", "content": ABOUT["question"]}]
    for turn in range(1, ABOUT["turns"] + 1):
        message = ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return turn, False
        for call in message["tool_calls"]:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            if not fits(name, arguments):
                return turn, False
            if name == "return_final_answer":
                return turn, True
            found = ABOUT["found"] if name == "search_inbox" else {**arguments, "body": ABOUT["body"]}
            content = json.dumps(found, separators=(",", ":"))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    return ABOUT["turns"], False


print(json.dumps(play()))
