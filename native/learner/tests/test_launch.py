"""Ranks of a launcher: who hears hone, whom hone hears, and that none is left, whoever ends."""

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from learner.launch import _Refusal, command_of
from learner.launched import Rank, Unlaunched, rank_of

HERE = Path(__file__).parent
LAUNCHER = [sys.executable, str(HERE / "rank_launcher.py")]
FAKE = ["--fake", str(HERE / "fake_rank.py")]
PATIENCE = 30


def alive(pid):
    """A dead process may wait to be reaped."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip() != "" and not done.stdout.strip().startswith("Z")


def gone(pids):
    until = time.monotonic() + PATIENCE
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(alive, pids))


class Hone:
    """The ends of a learner that hone holds."""

    def __init__(self, folder, command, limits=""):
        self.log = folder / "log"
        self._number = 0
        self._text = b""
        control, self._control = os.pipe()
        self._reports, reports = os.pipe()
        # The launching process expects them as 3 and 4.
        program = f"import sys, learner.launch as launch; {limits}\nlaunch.main()"
        given = f'exec 3<&{control} 4>&{reports}; exec {control}<&- {reports}>&-; exec "$0" "$@"'
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", given, sys.executable, "-c", program, shlex.join(command)],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                pass_fds=(control, reports),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        os.close(control)
        os.close(reports)

    def ask(self, kind, **more):
        """Returns the request's number."""
        self._number += 1
        os.write(self._control, (json.dumps({"id": self._number, "type": kind, **more}) + "\n").encode())
        return self._number

    def answers(self):
        """Reports up to the next answer, without beats."""
        reports = []
        until = time.monotonic() + PATIENCE
        while not (reports and reports[-1]["type"] in ("done", "error")):
            assert select.select([self._reports], [], [], max(0, until - time.monotonic()))[0], self.log.read_text()
            data = os.read(self._reports, 65536)
            assert data, self.log.read_text()
            *lines, self._text = (self._text + data).split(b"\n")
            reports += [one for one in map(json.loads, lines) if one["type"] not in ("beat", "hello")]
        return reports

    def close(self):
        os.close(self._control)

    def workers(self, folder):
        """Process ids of the ranks and of a process that each has started."""
        file = folder / "workers"
        number = self.ask("worker", file=str(file))
        self.answers()
        until = time.monotonic() + PATIENCE
        while not file.exists() or len(file.read_text().splitlines()) < 3:
            assert time.monotonic() < until
            time.sleep(0.02)
        return [pid for line in file.read_text().splitlines() for pid in json.loads(line)["pids"]], number

    def end(self):
        """Its exit code, and the lines of the log."""
        return self.process.wait(PATIENCE), self.log.read_text().splitlines()


@pytest.fixture
def start(tmp_path):
    started = []

    def start(command, limits=""):
        started.append(Hone(tmp_path, command, limits))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def test_the_learner_is_added_to_the_command():
    python = sys.executable
    plain = [python, "-m", "learner"]
    assert command_of("env -u 'A B'", python)[1:] == ["-u", "A B", *plain]
    torchrun = command_of("torchrun --nproc-per-node 2", python)
    # The one of the learner's own Python comes first.
    beside = os.path.join(os.path.dirname(python), "torchrun")
    assert torchrun == [beside, "--nproc-per-node", "2", "--no-python", *plain]
    assert command_of("torchrun --no_python", python)[1:] == ["--no_python", *plain]
    assert command_of("env python -m torch.distributed.run", python)[-4:] == ["--no-python", *plain]


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "is empty"), ("a 'b", "cannot be read as a command"), ("no-such-program 2", "there is no program")],
)
def test_what_is_no_command_is_refused(text, why):
    with pytest.raises(_Refusal, match=why):
        command_of(text, sys.executable)


def test_a_rank_is_what_the_launcher_says():
    assert rank_of({"RANK": "1", "WORLD_SIZE": "2"}) == Rank(1, 2, 1, 2)
    assert rank_of({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}) == Rank(5, 8, 1, 4)
    for wrong in ({}, {"RANK": "0"}, {"RANK": "x", "WORLD_SIZE": "2"}, {"RANK": "2", "WORLD_SIZE": "2"}):
        with pytest.raises(Unlaunched):
            rank_of(wrong)


def test_all_ranks_hear_hone_and_hone_hears_the_first(start, tmp_path):
    hone = start([*LAUNCHER, "3", *FAKE])
    for number in (1, 2):
        hone.ask("step")
        progress, done = hone.answers()
        assert progress["type"] == "progress"
        assert done == {"type": "done", "id": number, "result": [0, 3, 0, 3]}
    # Another rank than the first is heard where the first has no answer.
    hone.ask("fail", rank=2)
    assert hone.answers()[-1]["message"] == "rank 2 refuses"
    pids, _ = hone.workers(tmp_path)
    hone.close()
    code, log = hone.end()
    assert code == 0 and gone(pids)
    assert [line for line in log if '"id": 2' in line and "asked" in line] != []
    assert sum("asked" in line for line in log) == 3 * 4, log


def test_a_command_that_is_not_there_is_refused(start):
    hone = start(["no-such-launcher", "2"])
    hone.ask("open")
    (answer,) = hone.answers()
    assert answer["code"] == "refused"
    assert answer["message"].startswith('--learner-launch "no-such-launcher 2": there is no program no-such-launcher')


@pytest.mark.parametrize("variables", ["RANK", "WORLD_SIZE", "NONE"])
def test_a_command_that_sets_no_ranks_is_refused(start, variables):
    hone = start([*LAUNCHER, "2", "--variables", variables, *FAKE])
    hone.ask("open")
    (answer,) = hone.answers()
    lacks = "WORLD_SIZE" if variables == "RANK" else "RANK"
    assert answer["code"] == "refused"
    assert f"without the variable {lacks}; give a command that sets" in answer["message"]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_dies_ends_all_with_its_words_in_the_log(start, tmp_path, rank):
    hone = start([*LAUNCHER, "3", *FAKE])
    pids, _ = hone.workers(tmp_path)
    hone.ask("die", rank=rank)
    code, log = hone.end()
    assert code == 1 and gone(pids)
    assert log[-1] == f"learner: rank {rank} of 3 ended" and f"words of rank {rank}" in log


def test_the_rank_that_died_is_named_and_not_one_that_has_lost_it(start):
    hone = start([*LAUNCHER, "3", *FAKE])
    hone.ask("lose", rank=1)
    code, log = hone.end()
    assert code == 1 and log[-1] == "learner: rank 1 of 3 ended"


def test_a_rank_that_falls_silent_ends_all(start, tmp_path):
    hone = start([*LAUNCHER, "3", *FAKE], "launch.BEAT_LIMIT = 3")
    pids, _ = hone.workers(tmp_path)
    hone.ask("stop", rank=1)
    code, log = hone.end()
    assert code == 1 and gone(pids)
    assert log[-1] == "learner: rank 1 of 3 gave no sign of life for 3 seconds"


def test_ranks_that_do_not_start_are_not_waited_for(start):
    hone = start([sys.executable, "-c", "import time; time.sleep(600)"], "launch.START_SECONDS = 1")
    hone.ask("open")
    code, log = hone.end()
    assert code == 1 and log[-1] == "learner: 0 of its ranks started within 1 seconds"


def test_a_command_that_ends_is_no_launch(start):
    command = ["bash", "-c", "echo unknown option >&2; exit 7"]
    hone = start(command)
    hone.ask("open")
    code, log = hone.end()
    assert code == 7 and log[-1] == "unknown option"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("whom", ["hone", "the launching process", "the launcher"])
def test_no_process_is_left_whoever_is_killed(start, tmp_path, whom):
    hone = start([*LAUNCHER, "3", *FAKE])
    pids, _ = hone.workers(tmp_path)
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(hone.process.pid)], capture_output=True, text=True)
    children = [int(pid) for pid in listed.stdout.split()]
    assert len(children) == 2
    if whom == "hone":
        hone.close()
    elif whom == "the launching process":
        hone.process.kill()
    else:
        second = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1] for pid in children}
        os.kill(next(pid for pid, word in second.items() if b"rank_launcher" in word), signal.SIGKILL)
    hone.process.wait(PATIENCE)
    assert gone([*pids, *children])
