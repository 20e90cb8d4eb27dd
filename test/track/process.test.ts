/** Trackers that are down, crash, hang or are slow: training is not held up, and one line says what is lost. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { TrackerProcess, type TrackerSettings } from "../../src/insight/track/process.js";
import { anyPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-tracker-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const python = anyPython();
/** Speaks as native/tracker does; `row` and `end` are what it does then. */
const tracker = (row: string, end = 'say("ended", where="here")', start = "") => [
  "-c",
  `import json, os, sys, time
inp, out = os.fdopen(3), os.fdopen(4, "w")
def say(kind, **values):
    out.write(json.dumps({"type": kind, **values}) + "\\n"); out.flush()
inp.readline()
${start}
say("ready", last=-1, where="here", note=None)
seen = open(sys.argv[1], "a")
for line in inp:
    message = json.loads(line)
    if message["type"] == "row":
        seen.write(json.dumps(message) + "\\n"); seen.flush()
        ${row}
        say("done", step=message["step"])
    elif message["type"] == "end":
        ${end}
        break
`,
];
const nothing = "pass";

let files = 0;
function start(program: readonly string[], more: Partial<TrackerSettings> = {}) {
  const said: string[] = [];
  const file = join(folder, `seen-${++files}`);
  const process = new TrackerProcess({
    name: "tensorboard",
    python,
    logFile: join(folder, `${files}.log`),
    about: {},
    history: [],
    log: (line) => said.push(line),
    program: [...program, file],
    ...more,
  });
  const seen = () =>
    readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  return { process, said, seen };
}

const row = (step: number) => ({ step, values: { x: step } });
const patience = 20_000;
const hurry = 500;
const lost = (said: readonly string[]) => said.filter((line) => line.includes("training is not concerned"));

describe("a tracker's process", () => {
  it("gets every row in order, also those of before it was ready, and what it has not recorded of the run", async () => {
    const history = [0, 1, 2].map(row);
    const { process, said, seen } = start(tracker(nothing), { history });
    for (let step = 3; step < 40; step++) process.add(row(step));
    await process.close([], patience);
    expect(seen().map(({ step }) => step)).toEqual(Array.from({ length: 40 }, (_, i) => i));
    expect(said).toEqual(["tensorboard: here"]);
  });

  it("that cannot be started is said in one line", async () => {
    const { process, said } = start([], { python: join(folder, "no-python") });
    process.add(row(1));
    await process.close([], patience);
    expect(said).toHaveLength(1);
    expect(said[0]).toMatch(/^tensorboard could not be started \(.*ENOENT\): nothing of this run is in it; training/);
  });

  it("that crashes says up to which step it has the run, with its last line, once", async () => {
    const crash = 'if message["step"] == 3: raise RuntimeError("disk on fire")';
    const { process, said } = start(tracker(crash));
    for (let step = 1; step < 10; step++) process.add(row(step));
    await expect.poll(() => lost(said).length).toBe(1);
    for (let step = 10; step < 20; step++) process.add(row(step));
    await process.close([], patience);
    expect(lost(said)).toHaveLength(1);
    expect(lost(said)[0]).toMatch(
      /ended with code 1: what comes after step 2 is not in it;.*RuntimeError: disk on fire/,
    );
  });

  it.each([
    ["never gets ready", tracker(nothing, undefined, "time.sleep(600)")],
    ["hangs with a row", tracker("time.sleep(600)")],
    ["hangs at its end", tracker(nothing, "time.sleep(600)")],
  ])("that %s is ended after the run, and holds nobody up before", async (_, program) => {
    const { process, said } = start(program);
    // 5,000 rows that go nowhere: `add` returns at once, whoever reads them.
    for (let step = 1; step <= 5000; step++) expect(process.add(row(step))).toBeUndefined();
    await new Promise((resolve) => setTimeout(resolve, 500));
    await process.close([], hurry);
    expect(lost(said)).toHaveLength(1);
    expect(lost(said)[0]).toMatch(/was not done in \d+ s/);
  });

  it("that is slow loses the oldest rows of more than 2,000, and says so once", async () => {
    const { process, said, seen } = start(tracker(nothing, undefined, "time.sleep(1)"));
    for (let step = 1; step <= 3000; step++) process.add(row(step));
    await process.close([], patience);
    const steps = seen().map(({ step }) => step);
    expect([steps.length, steps[0], steps.at(-1)]).toEqual([2000, 1001, 3000]);
    expect(said.filter((line) => line.includes("the oldest steps"))).toHaveLength(1);
  });

  it("that says what is no message is ended", async () => {
    const { process, said } = start(tracker('out.write("hello\\n"); out.flush()'));
    process.add(row(1));
    await process.close([], patience);
    expect(lost(said)[0]).toContain("said what is no message");
  });
});

/** A tracker of a hone that is then killed with -9; what it does once its control pipe is closed. */
async function orphaned(grace: number, then: string) {
  const file = join(folder, `orphan-${++files}`);
  const program = `
import os, sys, time
from learner.lifeline import guard
guard(3, grace=${grace})
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
os.fdopen(3).read()
${then}
`;
  const script = `
import { TrackerProcess } from ${JSON.stringify(join(packageRoot, "dist/src/insight/track/process.js"))};
const [python, program, file] = process.argv.slice(1);
new TrackerProcess({ name: "wandb", python, program: ["-c", program, file], logFile: file + ".log", about: {}, history: [], say: console.log });
setInterval(() => undefined, 1000);
`;
  const hone = spawn(process.execPath, ["--input-type=module", "-e", script, python, program, file]);
  const pid = () => (existsSync(file) ? Number(readFileSync(file, "utf8")) : 0);
  await expect.poll(pid).toBeGreaterThan(0);
  hone.kill("SIGKILL");
  const group = pid();
  return { file, alive: () => existsSync(`/proc/${group}`) };
}

const noProc = existsSync("/proc/self") ? "" : " (skipped: processes are looked for in /proc)";

describe(`when hone is killed with -9${noProc}`, () => {
  it.skipIf(noProc)("a tracker that hangs is ended by its guardian", async () => {
    const { alive } = await orphaned(1, "time.sleep(600)");
    await expect.poll(alive).toBe(false);
  });

  it.skipIf(noProc)("one that does not has time to bring its files in order", async () => {
    const { file, alive } = await orphaned(30, 'time.sleep(1); open(sys.argv[1] + ".whole", "w").close()');
    await expect.poll(alive).toBe(false);
    expect(existsSync(`${file}.whole`)).toBe(true);
  });
});
