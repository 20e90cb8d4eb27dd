"""Plays scenarios against an OpenAI-compatible server. With the `openai` package it uses that, else urllib.

Reads one line of JSON per scenario ("id", "messages") from stdin, after one with the tools and limits. The mail is not
here: each call is a line on stdout, and its result a line on stdin. The last line of a scenario says how it ended.
"""

import json
import os
import queue
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

ABOUT = json.loads(sys.stdin.readline())
said = threading.Lock()
results = {}


def say(**line):
    with said:
        print(json.dumps(line), flush=True)


def client():
    try:
        from openai import OpenAI
    except ImportError:
        return None
    return OpenAI()


CLIENT = client()


def ask(messages, seed):
    request = {**ABOUT["request"], "messages": messages, "tools": ABOUT["tools"], "seed": seed}
    if CLIENT:
        choice = CLIENT.chat.completions.create(**request).choices[0]
        return choice.message.model_dump(exclude_none=True), choice.finish_reason
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"}
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(request).encode(), headers)) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["message"], choice["finish_reason"]


def play(scenario):
    messages = scenario["messages"]
    inbox = results[scenario["id"]]
    for turn in range(1, ABOUT["turns"] + 1):
        message, finish = ask(messages, scenario["seed"])
        messages.append(message)
        calls = message.get("tool_calls") or []
        if not calls:
            return turn, "token_limit" if finish == "length" else "no_tool_call"
        for call in calls:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            say(id=scenario["id"], turn=turn, name=name, arguments=arguments)
            result = inbox.get()
            if result["over"]:
                return turn, "answered" if result["answered"] else "bad_call"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result["text"]})
    return ABOUT["turns"], "turn_limit"


def run(scenario):
    turns, end = play(scenario)
    say(id=scenario["id"], turns=turns, end=end)


with ThreadPoolExecutor(ABOUT["at_once"]) as pool:
    running = []
    for text in sys.stdin:
        line = json.loads(text)
        if "messages" in line:
            results[line["id"]] = queue.Queue()
            running.append(pool.submit(run, line))
        else:
            results[line["id"]].put(line)
        if len(running) == ABOUT["scenarios"] and all(one.done() for one in running):
            break
    for one in running:
        one.result()
