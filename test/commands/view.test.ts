/** `yarn hone view` and `yarn report` as a user starts them. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { CommandLine } from "../support/command-line.js";
import { makeRun } from "../view/support/run.js";

const cli = join(packageRoot, "dist/src/cli.js");
const home = mkdtempSync(join(tmpdir(), "hone-view-"));
makeRun(home, "first", { steps: 2 });
makeRun(home, "second", { steps: 2 });

/** Makes a program the first process of its own numbers, as a container does; for root. */
const apart = ["unshare", "--pid", "--fork"] as const;
const mayPart = spawnSync(apart[0], [...apart.slice(1), "true"]).status === 0;

const commandLine = new CommandLine();
afterAll(() => commandLine.close());
const hone = (...args: string[]) => commandLine.run(home, ...args, "--home", home);

describe("yarn hone view", () => {
  it("serves the runs that are named until Ctrl-C, and ends well", async () => {
    const child = spawn(process.execPath, [cli, "view", "first", "second", "--home", home]);
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    let url = "";
    for await (const line of createInterface({ input: child.stdout })) {
      url = line.match(/http:\/\/127\.0\.0\.1:\d+\//)?.[0] ?? "";
      if (url) break;
    }
    const runs = (await (await fetch(`${url}api/runs`)).json()) as { name: string }[];
    expect(runs.map(({ name }) => name)).toEqual(["first", "second"]);
    child.kill("SIGINT");
    expect(await ended).toBe(0);
  });

  it("says that its terminal was closed, which nohup does not keep from it", async () => {
    const child = spawn(process.execPath, [cli, "view", "first", "--home", home]);
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const closed = once(child, "close");
    for await (const line of createInterface({ input: child.stdout })) if (line.includes("http://")) break;
    child.kill("SIGHUP");
    expect(await closed).toEqual([null, "SIGHUP"]);
    expect(stderr).toBe(
      "hone: ended with its terminal (SIGHUP): nohup does not keep Node running, setsid and tmux do\n",
    );
  });
});

it.skipIf(!mayPart)(
  `goes on without a word as the first process of a container${mayPart ? "" : " (skipped: unshare is for root)"}`,
  async () => {
    const [program, ...flags] = apart;
    const child = spawn(program, [...flags, process.execPath, cli, "view", "first", "--home", home]);
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const closed = once(child, "close");
    for await (const line of createInterface({ input: child.stdout })) if (line.includes("http://")) break;
    const inside = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8"));
    process.kill(inside, "SIGHUP");
    process.kill(inside, "SIGINT");
    expect(await closed).toEqual([0, null]);
    expect(stderr).toBe("");
  },
);

describe("yarn report", () => {
  it("has a name that can be written, however many runs it is of", async () => {
    const names = ["a", "b"].map((letter) => letter.repeat(150));
    for (const name of names) makeRun(home, name, { steps: 1 });
    const { status, stderr } = await hone("report", ...names);
    expect([status, stderr]).toEqual([0, ""]);
    expect(existsSync(join(home, `${names[0]}+1.html`))).toBe(true);
  });

  it("writes one file of several runs, and its summary as JSON", async () => {
    const { status, stdout } = await hone(
      "report",
      "first",
      "second",
      "--out",
      "made/both.html",
      "--sample",
      "10",
      "--json",
    );
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ file: "made/both.html", runs: 2, rollouts: 72 });
    expect(readFileSync(join(home, "made/both.html"), "utf8")).toContain("<title>first, second · hone</title>");
  });

  it("refuses a run that is not whole with one line, and leaves no file", async () => {
    const folder = makeRun(home, "half", { steps: 3 });
    truncateSync(join(folder, "run.sqlite"), 40_000);
    const { status, stderr } = await hone("report", "half", "--out", "half.html");
    expect(status).toBe(1);
    expect(stderr).toMatch(/^hone: .*run\.sqlite is damaged or half written: [^\n]*\n$/);
    expect(existsSync(join(home, "half.html"))).toBe(false);
  });

  it("names the runs that there are where one is misspelt", async () => {
    const { status, stderr } = await hone("report", "frist");
    expect(status).toBe(2);
    expect(stderr).toMatch(/there is no run frist in .*mail\/first/);
  });
});
