/** What the page is given: rows, samples, chunks, and runs that are not whole. */
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:http";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { inflateRawSync } from "node:zlib";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { sealCheckpoint } from "../../src/core/run/checkpoints.js";
import { FORMAT } from "../../src/core/run/format.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { isOwn } from "../../src/insight/view/loopback.js";
import { writeReport } from "../../src/insight/view/report-file.js";
import { rowOf } from "../../src/insight/view/rows.js";
import { openRuns, type SeenRun } from "../../src/insight/view/runs.js";
import { sampleOf } from "../../src/insight/view/sample.js";
import { serveRuns } from "../../src/insight/view/server.js";
import type { Body, ReportRun } from "../../src/insight/view/wire.js";
import { RunReader } from "../../src/machine/runs/reader.js";
import { findingsOf } from "../../web/src/diagnose.js";
import { problemsOf } from "../../web/src/problems.js";
import { makeRun } from "./support/run.js";

const homeOf = () => mkdtempSync(join(tmpdir(), "hone-report-"));
const open = (home: string, ...names: string[]): SeenRun[] => openRuns({ home, project: undefined }, names);
const one = (home: string, name: string) => open(home, name)[0] as SeenRun;

/** A part of the file, as the page reads it. */
function part<T>(html: string, id: string): T {
  const text = html.match(new RegExp(`id="${id}">([^<]*)<`))?.[1] ?? "";
  return JSON.parse(inflateRawSync(Buffer.from(text, "base64")).toString()) as T;
}

async function reported(run: SeenRun, home: string, sample: number) {
  const file = join(home, "r.html");
  const summary = await writeReport([run], file, sample);
  const html = readFileSync(file, "utf8");
  return { summary, html, run: part<ReportRun>(html, "run-0") };
}

describe("a report file", () => {
  it("and what eval and rollout write leave an older file as it is where the disk is full", () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 2, groups: 2, group: 2 });
    // Readers find SQLite's log: the limit is one of every file.
    one(home, "r");
    for (const name of ["report.html", "rollouts.jsonl"]) writeFileSync(join(home, name), "old");
    const cli = join(packageRoot, "dist/src/cli.js");
    const limited = (...args: string[]) =>
      spawnSync("bash", ["-c", `ulimit -f 40; exec "$@"`, "bash", process.execPath, cli, ...args], {
        cwd: home,
        encoding: "utf8",
      });
    const report = limited("report", "--home", ".", "--out", "report.html");
    expect([report.status, report.stderr]).toEqual([
      1,
      expect.stringMatching(/^hone: --out report\.html cannot be written: EFBIG/),
    ]);
    const arithmetic = join(packageRoot, "examples/arithmetic.ts");
    const many = ["--task", arithmetic, "--expert", "--n", "1", "--group-size", "64", "--out", "rollouts.jsonl"];
    const rollout = limited("rollout", ...many);
    expect([rollout.status, rollout.stderr]).toEqual([
      1,
      expect.stringMatching(
        /^hone: the trajectory file rollouts\.jsonl cannot be written: EFBIG.*; the lines before are in /m,
      ),
    ]);
    for (const name of ["report.html", "rollouts.jsonl"]) expect(readFileSync(join(home, name), "utf8")).toBe("old");
    const lines = readdirSync(home).find((name) => /^rollouts\.jsonl\.\d+\.new$/.test(name)) as string;
    for (const line of readFileSync(join(home, lines), "utf8").trimEnd().split("\n")) JSON.parse(line);
  });

  it("has every row, and whole conversations of the sample in chunks", async () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 6, groups: 4, group: 4 });
    const run = one(home, "r");
    const { summary, html, run: read } = await reported(run, home, 40);
    expect(summary.rollouts).toBe(6 * 16 + 12);
    expect(read.rows.rows).toHaveLength(summary.rollouts);
    expect(summary.embedded).toBeGreaterThanOrEqual(40);
    expect(summary.embedded).toBeLessThan(40 + 4);
    expect(Object.keys(read.chunks)).toHaveLength(summary.embedded);
    const reader = RunReader.open(run.reader?.folder ?? "");
    for (const [id, chunk] of Object.entries(read.chunks)) {
      const [seen] = reader.rollouts({ ids: [Number(id)] });
      const body = part<Body[]>(html, `chunk-${chunk}`).find((each) => each.id === Number(id));
      expect(body).toMatchObject({
        messages: seen?.trajectory.messages,
        calls: seen?.trajectory.calls,
        explanation: seen?.explanation ?? null,
        reward: seen?.trajectory.reward,
        tokens: { ids: seen?.trajectory.tokens?.ids, stretches: [4, 4] },
      });
      const sampled = seen?.trajectory.tokens?.logprobs.slice(4).map((logprob) => Math.round(1000 * logprob));
      expect(body?.tokens?.logprobs).toEqual(sampled);
    }
    reader.close();
    run.close();
  });

  it("has conversations of every run where there is room for less than a chunk of each", async () => {
    const home = homeOf();
    for (const name of ["a", "b"]) makeRun(home, name, { steps: 4, groups: 4, group: 4, words: 600 });
    const runs = open(home, "a", "b");
    const file = join(home, "r.html");
    const chunksIn = () => {
      const html = readFileSync(file, "utf8");
      const bytes = [...html.matchAll(/id="chunk-\d+">([^<]*)</g)].map(([, text]) => text?.length ?? 0);
      const rollouts = [0, 1].map((i) => Object.keys(part<ReportRun>(html, `run-${i}`).chunks).length);
      return { bytes, rollouts };
    };
    await writeReport(runs, file, 128);
    const [whole = 0] = chunksIn().bytes;
    // Beside the page's megabyte, for both runs: not two chunks, and their rows.
    await writeReport(runs, file, 128, 1e6 + 1.5 * whole);
    for (const run of runs) run.close();
    const { bytes, rollouts } = chunksIn();
    for (const n of rollouts) expect(n).toBeGreaterThan(4);
    expect(bytes.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(1.5 * whole);
  });

  it("allows itself nothing but its own script and style", async () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 1, says: "</script><script>alert(1)</script>" });
    const run = one(home, "r");
    const { html } = await reported(run, home, 10);
    run.close();
    const policy = html.match(/Content-Security-Policy" content="([^"]*)"/)?.[1] ?? "";
    expect(policy).toMatch(
      /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; connect-src 'none'/,
    );
    expect(policy).not.toContain("unsafe");
    expect(html.match(/<script type="module"/g)).toHaveLength(1);
    expect(html).not.toMatch(/(src|href)="?https?:/);
  });

  it("keeps of a huge tool result what can be read, and says how much is missing", async () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 1, says: "x".repeat(3_000_000) });
    const run = one(home, "r");
    const { summary, html, run: read } = await reported(run, home, 100);
    run.close();
    expect(summary.bytes).toBeLessThan(1_000_000);
    const bodies = [...new Set(Object.values(read.chunks))].flatMap((chunk) => part<Body[]>(html, `chunk-${chunk}`));
    const texts = bodies.flatMap(({ messages }) => messages.map(({ content }) => content));
    expect(texts.filter((text) => text.endsWith("… (2980000 more characters)")).length).toBeGreaterThan(0);
  });
});

describe("the sample", () => {
  it("takes whole groups: the first and last steps, those that went wrong, and the best", () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 40, groups: 4, group: 4, lost: 23 });
    const run = one(home, "r");
    const { rows } = run.rows(0, Number.POSITIVE_INFINITY);
    const sample = sampleOf(rows, 100);
    const small = sampleOf(rows, 30);
    run.close();
    expect(sample.length).toBeGreaterThanOrEqual(100);
    expect(small.some(({ phase, step }) => phase === "train" && step === 23)).toBe(true);
    const key = ({ phase, step, scenario }: (typeof rows)[number]) => `${phase} ${step} ${scenario}`;
    const whole = rows.filter((row) => sample.some((each) => key(each) === key(row)));
    expect(sample).toHaveLength(whole.length);
    const inStep = (step: number) => sample.filter((row) => row.phase === "train" && row.step === step).length;
    for (const step of [1, 23, 40]) expect(inStep(step), `step ${step}`).toBeGreaterThan(0);
    const best = Math.max(...rows.map(({ reward }) => reward));
    expect(sample.some(({ reward }) => reward === best)).toBe(true);
    // And some from between: half of the run is not left out.
    expect(new Set(sample.map(({ step }) => Math.floor(step / 10))).size).toBeGreaterThanOrEqual(4);
  });

  it("takes all where there are fewer, each once", () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 2 });
    const run = one(home, "r");
    const { rows } = run.rows(0, Number.POSITIVE_INFINITY);
    const sample = sampleOf(rows, 1000);
    run.close();
    expect([...sample].map(({ id }) => id).sort((a, b) => a - b)).toEqual(
      rows.map(({ id }) => id).sort((a, b) => a - b),
    );
  });
});

describe("rows", () => {
  it("come in parts of whole steps, each once", () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 7, groups: 3, group: 4 });
    const run = one(home, "r");
    const all = run.rows(0, Number.POSITIVE_INFINITY);
    const parts = [];
    for (let next: number | null = 0; next !== null; ) {
      const rows: ReturnType<SeenRun["rows"]> = run.rows(next, 30);
      parts.push(rows.rows);
      next = rows.next;
    }
    run.close();
    expect(parts.length).toBeGreaterThan(2);
    expect(parts.flat()).toEqual(all.rows);
    // A step is read to its end.
    for (const rows of parts) expect(rows.length).toBeLessThan(30 + 24);
  });
});

describe("a row", () => {
  it("says whether its rollout ended by no fault of the model", () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 1 });
    const run = one(home, "r");
    const [seen] = run.reader?.rollouts() ?? [];
    run.close();
    if (!seen) throw new Error("no rollout");
    const ended = (deadlineCause: "tools" | "generation") =>
      rowOf({ ...seen, trajectory: { ...seen.trajectory, end: "deadline", deadlineCause } }).brokenOff;
    expect([ended("tools"), ended("generation"), rowOf(seen).brokenOff]).toEqual([true, false, false]);
  });
});

describe("a run that is not whole", () => {
  it("of another format: one line that says so", async () => {
    const home = homeOf();
    const folder = makeRun(home, "other", { steps: 1 });
    const database = new Database(join(folder, "run.sqlite"));
    database.pragma("user_version = 99");
    database.close();
    const run = one(home, "other");
    expect(run.problem).toMatch(/run\.sqlite has format 99, and this hone reads format \d+ only/);
    expect((await run.view()).problem).toBe(run.problem);
    run.close();
  });

  it.each([
    ["cut off", (file: string) => truncateSync(file, 40_000)],
    ["overwritten", (file: string) => writeFileSync(file, Buffer.alloc(90_000, 7))],
  ])("%s: one line that says so", async (_, spoil) => {
    const home = homeOf();
    const folder = makeRun(home, "half", { steps: 3 });
    spoil(join(folder, "run.sqlite"));
    const run = one(home, "half");
    const problem = run.problem ?? (await run.view()).problem;
    expect(problem).toMatch(/^\/.*run\.sqlite (is damaged or half written: .*|is not a run of hone)$/);
    run.close();
  });

  it("without a step, and in use: says both", async () => {
    const home = homeOf();
    const folder = makeRun(home, "new", { steps: 0 });
    writeFileSync(join(folder, "owner.json"), JSON.stringify({ pid: process.pid, host: hostname(), since: "2031" }));
    const run = one(home, "new");
    const view = await run.view();
    expect(view).toMatchObject({ problem: null, running: true, counts: [] });
    expect(problemsOf(view).map(({ text }) => text)).toEqual(["No step is finished yet."]);
    expect(problemsOf({ ...view, running: false })).toMatchObject([
      { text: "No step was finished.", next: [expect.stringMatching(/ train .*--run new$/)] },
    ]);
    const { summary } = await reported(run, home, 10);
    expect(summary).toMatchObject({ rollouts: 0, embedded: 0 });
    run.close();
  });

  it("ended within a step: says which, and that no process trains it", async () => {
    const home = homeOf();
    const folder = makeRun(home, "ended", { steps: 3 });
    const database = new Database(join(folder, "run.sqlite"));
    database.exec("DELETE FROM steps WHERE step = 3");
    database.close();
    writeFileSync(join(folder, "owner.json"), JSON.stringify({ pid: 2 ** 22 + 1, host: hostname(), since: "2031" }));
    const run = one(home, "ended");
    expect(problemsOf(await run.view())[0]).toMatchObject({
      steps: [3],
      text: expect.stringMatching(/^It was begun and not finished: 12 of its rollouts are kept/),
      next: [expect.stringMatching(/ train .*--run ended$/)],
    });
    run.close();
  });

  it("with a damaged checkpoint: names the file", async () => {
    const home = homeOf();
    const folder = makeRun(home, "r", { steps: 1 });
    const checkpoint = join(folder, "checkpoints/0001");
    mkdirSync(checkpoint, { recursive: true });
    const files = { "adapter.gguf": { sha256: "0".repeat(64), bytes: 3 } };
    const lora = { rank: 1, alpha: 1, targets: [] };
    writeFileSync(
      join(checkpoint, "manifest.json"),
      JSON.stringify({ version: FORMAT, run: "r", step: 1, model: "m", lora, files }),
    );
    const run = one(home, "r");
    const view = await run.view();
    expect(view.steps).toHaveLength(2);
    expect(view.checkpoints[0]?.damage).toMatch(/0001 is damaged: adapter\.gguf is not what its manifest says/);
    run.close();
  });
});

describe("the logs of a run", () => {
  it("are read at their end alone, however long they are", async () => {
    const home = homeOf();
    const folder = makeRun(home, "r", { steps: 1 });
    mkdirSync(join(folder, "logs"));
    const file = join(folder, "logs/learner.log");
    writeFileSync(file, "first");
    // More than Node reads as one file; nothing of it lies on the disk.
    truncateSync(file, 3 * 2 ** 30);
    appendFileSync(file, "\nlast but one\nlast\n");
    const run = one(home, "r");
    const [log] = (await run.view()).logs;
    run.close();
    expect(log?.name).toBe("learner.log");
    expect(log?.lines.slice(1)).toEqual(["last but one", "last"]);
    expect(log?.lines[0]).toHaveLength(16_384 - "\nlast but one\nlast\n".length);
  });
});

describe("the checkpoints of a run that goes on", () => {
  const checkpoint = async (folder: string, step: number) => {
    const path = join(folder, "checkpoints", String(step).padStart(4, "0"));
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, "adapter.gguf"), "adapter");
    const lora = { rank: 1, alpha: 1, targets: [] };
    await sealCheckpoint(path, { run: "r", step, model: "m", lora }, ["adapter.gguf"]);
    return path;
  };

  it("are seen to go when they are removed after the step's commit", async () => {
    const home = homeOf();
    const folder = makeRun(home, "r", { steps: 2 });
    const old = await checkpoint(folder, 1);
    await checkpoint(folder, 2);
    const run = one(home, "r");
    const steps = async () => (await run.view()).checkpoints.map(({ step }) => step);
    expect(await steps()).toEqual([1, 2]);
    rmSync(old, { recursive: true });
    expect(await steps()).toEqual([2]);
    run.close();
  });

  it("say where a run that was forked begins: with one of step 0", async () => {
    const home = homeOf();
    const folder = makeRun(home, "r", { steps: 2 });
    const run = one(home, "r");
    expect((await run.view()).given.fork).toBeUndefined();
    const first = await checkpoint(folder, 0);
    expect((await run.view()).given.fork).toBe(` --fork ${first}`);
    run.close();
  });

  it("are not called damaged when they are removed while they are read", async () => {
    const home = homeOf();
    const folder = makeRun(home, "r", { steps: 2 });
    await checkpoint(folder, 1);
    const old = await checkpoint(folder, 2);
    const reader = RunReader.open(folder);
    const reading = reader.checkpoints();
    rmSync(old, { recursive: true });
    expect(await reading).toEqual([{ step: 1, damage: null }]);
    reader.close();
  });
});

describe("what stands out", () => {
  it("is why a step taught nothing, and the judge's reasons", async () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 8, lost: 7 });
    const run = one(home, "r");
    const view = await run.view();
    run.close();
    const [step] = view.steps.filter(({ step }) => step === 7);
    if (!step) throw new Error("no step 7");
    expect(
      findingsOf(step, view)
        .filter(({ level }) => level === "bad")
        .map(({ text }) => text),
    ).toEqual([
      "Nothing was learnt: no group got a reward.",
      "3 of 3 groups got no reward: the judge did not answer in time (timeout).",
    ]);
    expect(problemsOf(view)).toEqual([
      expect.objectContaining({
        steps: [7],
        text: "Nothing was learnt: no group got a reward.",
        cause: "3 groups: the judge did not answer in time (timeout)",
      }),
    ]);
  });
});

describe("a request of the page itself", () => {
  it("names the port, but for 80, which browsers leave away", () => {
    expect(isOwn({ host: "localhost" }, 80)).toBe(true);
    expect(isOwn({ host: "127.0.0.1", origin: "http://127.0.0.1" }, 80)).toBe(true);
    expect(isOwn({ host: "127.0.0.1:80" }, 80)).toBe(true);
    expect(isOwn({ host: "evil.example" }, 80)).toBe(false);
    expect(isOwn({ host: "localhost" }, 8080)).toBe(false);
  });
});

describe("the live server", () => {
  const ask = (url: string, headers: Record<string, string>, method = "GET", path = "/api/runs") =>
    new Promise<number>((resolve, reject) => {
      const { hostname: host, port } = new URL(url);
      request({ host, port, path, method, headers }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      })
        .on("error", reject)
        .end();
    });

  it("answers its own page alone, and on loopback alone", async () => {
    const home = homeOf();
    makeRun(home, "r", { steps: 1 });
    const runs = open(home, "r");
    const server = await serveRuns(runs, 0);
    const { port, host } = new URL(server.url);
    try {
      expect(new URL(server.url).hostname).toBe("127.0.0.1");
      expect(await ask(server.url, { host })).toBe(200);
      expect(await ask(server.url, { host: `localhost:${port}` })).toBe(200);
      expect(await ask(server.url, { host, origin: `http://${host}` })).toBe(200);
      // A name of somebody else's that leads here.
      expect(await ask(server.url, { host: `evil.example:${port}` })).toBe(403);
      expect(await ask(server.url, { host, origin: "http://evil.example" })).toBe(403);
      expect(await ask(server.url, { host, origin: "null" })).toBe(403);
      expect(await ask(server.url, { host, "sec-fetch-site": "cross-site" })).toBe(403);
      expect(await ask(server.url, { host }, "POST")).toBe(405);
      const forwarded = `http://${host}/api/runs`;
      const refused = await fetch(forwarded, { headers: { "sec-fetch-site": "cross-site" } });
      expect(await refused.text()).toContain(`forward the same port number: ssh -L ${port}:127.0.0.1:${port} MACHINE`);
      // No address at all, and one where there is nothing: the server goes on.
      expect(await ask(server.url, { host }, "GET", "//")).toBe(404);
      expect(await ask(server.url, { host }, "GET", "/nothing")).toBe(404);
      const page = await fetch(server.url);
      expect(page.headers.get("content-security-policy")).toMatch(/default-src 'none'.*connect-src 'self'/);
      await expect(serveRuns(runs, Number(port))).rejects.toThrow(`port ${port} is taken`);
    } finally {
      await server.close();
      for (const run of runs) run.close();
    }
  });
});

describe("the runs that are named", () => {
  it("are found by name, project and name, or folder; none is named twice", () => {
    const home = homeOf();
    const folder = makeRun(home, "r", { steps: 1 });
    for (const word of ["r", "mail/r", folder]) {
      const run = one(home, word);
      expect([word, run.name, run.problem]).toEqual([word, "r", null]);
      run.close();
    }
    expect(() => open(home, "nobody")).toThrow("there is no run nobody");
    expect(() => open(home, "r", folder)).toThrow("the run r is named twice");
  });
});
