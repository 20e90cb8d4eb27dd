"""A launcher other than PyTorch's: `rank_launcher.py COUNT [--variables NAMES] COMMAND...` starts the command COUNT
times, each in a session of its own, with RANK and WORLD_SIZE, or with NAMES (commas between them) of these. `--fake
PROGRAM` starts that Python program instead. Goes on for a minute when one of them has ended.
"""

import argparse
import os
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("count", type=int)
parser.add_argument("--variables", default="RANK,WORLD_SIZE")
parser.add_argument("--fake", nargs="*", default=[])
own, command = parser.parse_known_args()
started = []
for number in range(own.count):
    every = {"RANK": str(number), "WORLD_SIZE": str(own.count)}
    chosen = {name: every[name] for name in own.variables.split(",") if name in every}
    words = [sys.executable, *own.fake] if own.fake else command
    started.append(subprocess.Popen(words, env=os.environ | chosen, start_new_session=True))
while all(one.poll() is None for one in started):
    time.sleep(0.02)
time.sleep(60)
