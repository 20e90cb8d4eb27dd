"""Ranks of a launcher: who hears hone, whom hone hears, and that none is left, whoever ends."""

import contextlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from learner.launch import LOOK_SECONDS, AwakeClock, _Refusal, command_of
from learner.launched import Rank, Unlaunched, rank_of

HERE = Path(__file__).parent
LAUNCHER = [sys.executable, str(HERE / "rank_launcher.py")]
FAKE = ["--fake", str(HERE / "fake_rank.py")]
PATIENCE = 300


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
        """Reports up to the next answer, without beats that say nothing more."""
        reports = []
        until = time.monotonic() + PATIENCE
        while not (reports and reports[-1]["type"] in ("done", "error")):
            assert select.select([self._reports], [], [], max(0, until - time.monotonic()))[0], self.log.read_text()
            data = os.read(self._reports, 65536)
            assert data, self.log.read_text()
            *lines, self._text = (self._text + data).split(b"\n")
            reports += [
                one for one in map(json.loads, lines) if one["type"] not in ("beat", "hello") or "progress" in one
            ]
        return reports

    def close(self):
        os.close(self._control)

    def workers(self, folder, ranks=3):
        """Process ids of the ranks and of a process that each has started."""
        file = folder / "workers"
        number = self.ask("worker", file=str(file))
        self.answers()
        until = time.monotonic() + PATIENCE
        while not file.exists() or len(file.read_text().splitlines()) < ranks:
            assert time.monotonic() < until
            time.sleep(0.02)
        return [pid for line in file.read_text().splitlines() for pid in json.loads(line)["pids"]], number

    def children(self):
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]

    def launcher(self):
        """The process id of rank_launcher.py. Reads /proc."""
        second = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1] for pid in self.children()}
        return next(pid for pid, word in second.items() if b"rank_launcher" in word)

    def end(self):
        """Its exit code, and the lines of the log."""
        return self.process.wait(PATIENCE), self.log.read_text().splitlines()


@pytest.fixture
def start(tmp_path):
    started = []

    def start(command, limits="", **more):
        started.append(Hone(tmp_path, command, limits, **more))
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
    # That of the learner's own Python, without its script: one of an environment that was moved names no Python.
    assert torchrun == [python, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python", *plain]
    assert command_of("torchrun --no_python", python)[3:] == ["--no_python", *plain]
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
    # Another rank than the first is heard where the first has no answer; that it works is a sign of life.
    hone.ask("fail", rank=2)
    works, error = hone.answers()
    assert works == {"type": "beat", "progress": True}
    assert error["message"] == "rank 2 refuses"
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
    # Ranks write to one log at once: a line of one may go on in a line of another.
    assert log[-1] == f"learner: rank {rank} of 3 ended" and any(f"words of rank {rank}" in line for line in log)


def test_the_rank_that_died_is_named_and_not_one_that_has_lost_it(start):
    hone = start([*LAUNCHER, "3", *FAKE], "launch.CULPRIT_SECONDS = 30")
    hone.ask("lose", rank=1)
    code, log = hone.end()
    assert code == 1 and log[-1] == "learner: rank 1 of 3 ended"


def test_a_rank_that_falls_silent_ends_all(start, tmp_path):
    hone = start([*LAUNCHER, "3", *FAKE], "launch.BEAT_LIMIT = 6")
    pids, _ = hone.workers(tmp_path)
    hone.ask("stop", rank=1)
    code, log = hone.end()
    assert code == 1 and gone(pids)
    assert log[-1] == "learner: rank 1 of 3 gave no sign of life for 6 seconds"


def test_silence_is_counted_by_a_clock_that_stands_still_while_the_launcher_cannot_run(monkeypatch):
    time_now = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("learner.launch.time", time_now)
    now = 50.0
    clock = AwakeClock()
    now += 1.0
    assert clock.now() == pytest.approx(1.0)
    now += 190.0
    assert clock.now() == pytest.approx(1.0 + LOOK_SECONDS)
    now += 0.5
    assert clock.now() == pytest.approx(1.5 + LOOK_SECONDS)


def test_ranks_that_do_not_start_are_not_waited_for(start):
    hone = start([sys.executable, "-c", "import time; time.sleep(600)"], "launch.START_SECONDS = 1")
    hone.ask("open")
    code, log = hone.end()
    assert code == 1 and log[-1] == "learner: 0 of its ranks started within 1 seconds"


def elsewhere(bystander, mark):
    """A command for ranks of another list of processes, in which they have the numbers from that of a process here."""
    begin = f"echo {bystander - 1} > /proc/sys/kernel/ns_last_pid"
    inside = [*LAUNCHER, "2", "--fake", str(HERE / "fake_rank.py"), str(mark)]
    return ["unshare", "-Urpf", "--kill-child", "--mount-proc", "bash", "-c", f"{begin}; {shlex.join(inside)} & wait"]


def can_go_elsewhere():
    tried = subprocess.run([*elsewhere(2, "")[:4], "true"], capture_output=True) if sys.platform == "linux" else None
    return tried is not None and tried.returncode == 0


@pytest.mark.skipif(not can_go_elsewhere(), reason="unshare makes no list of processes here")
def test_processes_here_are_left_alone_where_ranks_of_a_container_have_their_numbers(start, tmp_path):
    bystanders = [subprocess.Popen(["sleep", "600"]) for _ in range(12)]
    # Other programs of this machine may have numbers between.
    numbers = [one.pid for one in bystanders]
    try:
        hone = start(elsewhere(numbers[0], tmp_path))
        hone.ask("step")
        assert hone.answers()[-1]["result"] == [0, 2, 0, 2]
        pids, _ = hone.workers(tmp_path, ranks=2)
        # These are the ranks and what they have started: they have the numbers of bystanders.
        assert set(pids) & set(numbers)
        hone.ask("die", rank=1)
        code, log = hone.end()
        assert code == 1 and log[-1] == "learner: rank 1 of 2 ended"
        listed = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True).stdout.splitlines()
        assert not [line for line in listed if str(tmp_path) in line]
        assert all(one.poll() is None for one in bystanders)
    finally:
        for one in bystanders:
            one.kill()
            one.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_strangers_are_sent_away_and_change_nothing(start):
    hone = start([*LAUNCHER, "2", *FAKE], "launch.BEAT_LIMIT = 5")
    hone.ask("step")
    assert hone.answers()[-1]["type"] == "done"
    variables = Path(f"/proc/{hone.launcher()}/environ").read_bytes().split(b"\0")
    address = next(one.partition(b"=")[2] for one in variables if one.startswith(b"HONE_LEARNER_RANKS="))
    host, port, _ = address.decode().split()
    hello = {"secret": "another", "rank": 0, "world": 2, "pid": os.getpid(), "machine": "this"}
    for said in (json.dumps(hello).encode() + b"\n", b"GET / HTTP/1.1\r\n\r\n", b"x" * 5000, b""):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.settimeout(PATIENCE)
            stranger.sendall(said)
            # Who says nothing is sent away after a while.
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
    hone.ask("step")
    assert hone.answers()[-1]["type"] == "done"


def test_a_command_that_ends_is_no_launch(start):
    command = ["bash", "-c", "echo unknown option >&2; exit 7"]
    hone = start(command)
    hone.ask("open")
    code, log = hone.end()
    assert code == 7 and log[-1] == "unknown option"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("whom", ["hone", "the launching process", "the launcher"])
def test_no_process_and_no_folder_is_left_whoever_is_killed(start, tmp_path, monkeypatch, whom):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    hone = start([*LAUNCHER, "3", *FAKE])
    pids, _ = hone.workers(tmp_path)
    children = hone.children()
    assert len(children) == 2
    if whom == "hone":
        hone.close()
    elif whom == "the launching process":
        hone.process.kill()
    else:
        os.kill(hone.launcher(), signal.SIGKILL)
    hone.process.wait(PATIENCE)
    assert gone([*pids, *children])
    assert list(temporary.iterdir()) == []
