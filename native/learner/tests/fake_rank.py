"""A rank without a model, for test_launch.py: says which it is, and does what a request's type says to the rank that it
names."""

import json
import os
import signal
import subprocess
import sys
import time

from learner import protocol
from learner.launched import enter
from learner.lifeline import guard

rank = enter(protocol.CONTROL_FD, protocol.REPORT_FD)
guard(protocol.CONTROL_FD, half=True)
connection = protocol.Connection()
connection.start()
for request in connection.requests():
    number, kind, mine = request["id"], request["type"], request.get("rank") == rank.number
    # In one piece: print writes the end of a line by itself, and ranks write at the same time.
    os.write(1, f"rank {rank.number} is asked {json.dumps(request)}\n".encode())
    if kind == "worker":
        worker = subprocess.Popen(["sleep", "600"])
        pids = {"id": number, "pids": [os.getpid(), worker.pid], "rank": rank.number}
        with open(request["file"], "a") as file:
            file.write(json.dumps(pids) + "\n")
    elif kind == "die" and mine:
        print(f"words of rank {rank.number}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "stop" and mine:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "lose":
        # As ranks of which one has died, before its death is known.
        if mine:
            time.sleep(0.5)
            print("words of the one that died", file=sys.stderr, flush=True)
            os._exit(3)
        connection.send({"type": "lost", "message": "the others are gone"})
        time.sleep(600)
    elif kind == "fail":
        if mine:
            message = f"rank {rank.number} refuses"
            connection.send({"type": "progress", "id": number, "phase": "update", "done": 1, "total": 1})
            connection.send({"type": "error", "id": number, "code": "refused", "message": message})
        continue
    if rank.first and kind not in ("die", "stop"):
        connection.send({"type": "progress", "id": number, "phase": "update", "done": 1, "total": 1})
    connection.send({"type": "done", "id": number, "result": [rank.number, rank.world, rank.local, rank.local_world]})
