import { type StdioOptions, spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { flagOf, isOwn, type OptionName, optionNames, options } from "../src/core/config/config.js";
import { packageRoot } from "../src/core/util/paths.js";
import type { Command } from "../src/hone/command.js";
import { main } from "../src/hone/command-line.js";
import { loadCommands } from "../src/hone/commands/commands.js";
import { readHelp } from "../src/hone/help.js";
import { CommandLine } from "./support/command-line.js";

const commands = await loadCommands();

const folder = mkdtempSync(join(tmpdir(), "hone-cli-"));

/** Runs the built command line as a user does. */
function hone(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(packageRoot, "dist/src/cli.js"), ...args], {
    cwd: folder,
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

/** Runs it in a process that stays: what it says of wrong words has nothing to do with its own. */
const line = new CommandLine();
afterAll(() => line.close());
const told = (...args: string[]) => line.run(folder, ...args);

/** A page of help, printed in this process: a hundred processes would take a minute. */
async function helpOf(...args: string[]): Promise<string> {
  const printed = vi.spyOn(console, "log").mockImplementation(() => undefined);
  try {
    expect(await main(args)).toBe(0);
    return printed.mock.calls.map((line) => `${line.join(" ")}\n`).join("");
  } finally {
    printed.mockRestore();
  }
}

const flagsIn = (group: string) =>
  optionNames.filter((name) => options[name].group === group).map((name) => (name === "n" ? "-n" : flagOf(name)));

describe("the command line", () => {
  it.each([
    ["", commands.filter(({ name }) => !name.includes(" "))],
    ["models", commands.filter(({ name }) => name.startsWith("models "))],
  ])("%s --help lists every command below it with an example", async (above, below) => {
    expect(below.length).toBeGreaterThan(2);
    const stdout = await helpOf(...above.split(" ").filter(Boolean), "--help");
    const text = stdout.replaceAll(/\s+/g, " ");
    for (const { name, example } of below) {
      expect(text).toContain(name);
      expect(text).toContain(example.replaceAll(/\s+/g, " "));
    }
  });

  it.skipIf(!existsSync("/dev/full"))("says in one line that its output has no room", () => {
    const into = openSync("/dev/full", "w");
    const stdio: StdioOptions = ["ignore", into, "pipe"];
    const { status, stderr } = spawnSync(process.execPath, [join(packageRoot, "dist/src/cli.js"), "models", "--help"], {
      stdio,
    });
    closeSync(into);
    expect(String(stderr)).toMatch(/^hone: stdout cannot be written: ENOSPC.*\n$/);
    expect(status).toBe(1);
  });

  it("--version is that of package.json", () => {
    const { version } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8"));
    expect(hone("--version")).toEqual({ status: 0, stdout: `${version}\n`, stderr: "" });
  });

  it.each(commands.map((command) => [command.name, command]))(
    "%s --help shows its options and its example",
    async (name, command) => {
      const stdout = await helpOf(...name.split(" "), "--help");
      expect(stdout.replaceAll(/\s+/g, " ")).toContain(command.example.replaceAll(/\s+/g, " "));
      expect(stdout).toContain("--json");
    },
  );

  const shown = (text: string) =>
    [...text.matchAll(/^ {2,6}(--?[a-z][a-z0-9-]*) /gm)].map(([, flag]) => flag as string);
  const everyFlag = (command: Command) =>
    [...new Set([...command.options, "home", "json"] as OptionName[])]
      .filter((name) => !options[name].flagless)
      .map((name) => (name === "n" ? "-n" : flagOf(name)));

  it.each(commands.map((command) => [command.name, command]))(
    "%s --help all shows every option once, under the headings of docs/options.md and in their order, those of its room first",
    async (name, command) => {
      const stdout = await helpOf(...name.split(" "), "--help", "all");
      expect(shown(stdout).sort()).toEqual([...everyFlag(command), "--help"].sort());
      const headings = [...stdout.matchAll(/^([A-Z][A-Za-z ]+):$/gm)].map(([, title]) => title);
      const ordered = [...optionNames].sort((a, b) => Number(!isOwn(a)) - Number(!isOwn(b)));
      const groups = [...new Set(ordered.map((one) => options[one].group))];
      const own = groups.filter((group) => everyFlag(command).some((flag) => flagsIn(group).includes(flag)));
      expect(headings.filter((title) => title !== "Commands")).toEqual([...own, "Examples"]);
    },
  );

  it.each(commands.filter(({ options }) => options.length > 15).map((command) => [command.name, command]))(
    "%s --help shows what is set first, on a page, and says how to see the rest",
    async (name, command) => {
      const stdout = await helpOf(...name.split(" "), "--help");
      const first = command.first?.map((one) => (one === "n" ? "-n" : flagOf(one))) ?? [];
      expect(shown(stdout).sort()).toEqual([...first, "--json", "--help"].sort());
      const lines = stdout.trimEnd().split("\n");
      expect(lines.length).toBeLessThanOrEqual(45);
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(100);
      expect(lines.at(-1)).toBe(
        `These are the options that are set first; \`yarn hone ${name} --help all\` shows all ${everyFlag(command).length}.`,
      );
    },
  );

  it("has at most 100 options for train, and shows at most 20 of any command at first", async () => {
    expect(shown(await helpOf("train", "--help", "all")).filter((flag) => flag !== "--help").length).toBeLessThan(101);
    for (const { name } of commands) {
      const first = shown(await helpOf(...name.split(" "), "--help"));
      expect([name, first.length > 20]).toEqual([name, false]);
    }
  });

  it("says each command's own default of --split and -n", async () => {
    const [ofEval, ofRollout] = [await helpOf("eval", "--help"), await helpOf("rollout", "--help")].map((text) =>
      text.replaceAll(/\s+/g, " "),
    );
    expect(ofEval).toMatch(/--split Only scenarios of this split\. \(train, test; default: test\)/);
    expect(ofEval).toMatch(/-n Number of scenarios, drawn by the seed\. \([^)]*; default: all\)/);
    expect(ofRollout).toMatch(/--split [^(]*\(train, test; default: both\)/);
    expect(ofRollout).toMatch(/-n Number [^(]*\([^)]*; default: 16\)/);
  });

  it("hides no option from the command line that --help leaves out", async () => {
    const { status, stderr } = await told("train", "--warmup", "-1");
    expect([status, stderr]).toEqual([2, 'hone: --warmup: "-1" is not accepted; give a whole number of at least 0\n']);
  });

  it.each([
    [["train", "--help", "all"], "train", true],
    [["train", "--help=all"], "train", true],
    [["train", "--steps", "3", "--help", "all"], "train", true],
    [["train", "--help", "all", "--steps", "3"], "train", true],
    [["--help", "all", "train"], "train", true],
    [["train", "--help", "--steps", "3"], "train", false],
    [["train", "--steps", "3", "--help"], "train", false],
    [["--help", "train"], "train", false],
    [["judge", "--help", "rollouts.jsonl"], "judge", false],
    [["judge", "--help", "all", "rollouts.jsonl"], "judge", true],
    [["--help", "sft", "rollouts.jsonl"], "sft", false],
    [["models", "pull", "--help", "Qwen/Qwen2.5-0.5B-Instruct"], "pull", false],
  ])("helps wherever --help stands: %j", (args, name, everything) => {
    const read = readHelp(args);
    expect(read.everything).toBe(everything);
    expect(read.args).toEqual(args.filter((arg) => arg !== "all").map((arg) => arg.replace("=all", "")));
    expect(read.args).toContain(name);
  });

  it("helps before the command's name and after other flags", async () => {
    expect(await helpOf("--help", "all", "runs")).toBe(await helpOf("runs", "--help"));
    expect(await helpOf("train", "--steps", "3", "--help", "all")).toBe(await helpOf("train", "--help", "all"));
    expect(await helpOf("judge", "--help", "rollouts.jsonl")).toBe(await helpOf("judge", "--help"));
  });

  it.each([
    [["models", "pul", "x"], /there is no command models pul; did you mean models pull\?/],
    [["models", "pull"], /models pull needs --model/],
    [["models", "pull", "a/b", "c/d"], /models pull does not know what to do with "c\/d"/],
    [["rolout"], /there is no command rolout; did you mean rollout\?/],
    [["chat", "--run", "demo"], /--run: chat takes a run without a flag: yarn hone chat demo/],
    [["rollout", "--grup-size", "3"], /--grup-size: rollout has no such option; did you mean --group-size\?/],
    [
      ["train", "--zzzzzzzzzz", "3"],
      /^hone: --zzzzzzzzzz: train has no such option; `yarn hone train --help all` lists the options$/m,
    ],
    [
      ["plan", "qwen2.5-7b", "--cards", "4090"],
      /^hone: `yarn hone plan` has been removed; docs\/scale\.md has the arithmetic/,
    ],
    [["help", "plan"], /^hone: `yarn hone plan` has been removed; /],
    [["rollout", "--prompt-tokens", "600"], /^hone: --prompt-tokens has been removed; it was an option of `plan`/],
    [
      ["train", "--learner-shards", "2"],
      /^hone: --learner-shards has been removed; each process of --learner-launch has/,
    ],
    [["train", "--lanes", "2"], /^hone: --lanes has been removed; hone chooses by the model and the device/],
    [
      ["train", "--top-k", "40"],
      /^hone: --top-k has been removed; training samples from the model's whole distribution/,
    ],
    [["rollout", "--rank", "bm25"], /^hone: --rank has been removed; give --set rank=bm25/],
    [["train", "--no-judge-cache"], /^hone: --judge-cache has been removed; /],
    [
      ["train", "--hf-offline"],
      /^hone: --hf-offline is no flag; set HF_HUB_OFFLINE, or hfOffline in hone\.config\.json$/m,
    ],
    [["rollout", "--group-size"], /[Nn]ot enough arguments.*group/],
    [["rollout", "--group-size", "none"], /--group-size: "none" is not accepted; give a whole number from 1/],
    [["rollout", "extra"], /rollout does not know what to do with "extra"/],
  ])("refuses %j with one line and exit code 2", async (args, message) => {
    const { status, stdout, stderr } = await told(...args);
    expect(status).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it("tells a failure as JSON too under --json", () => {
    const { status, stdout, stderr } = hone("rollout", "--expert", "--task", "nowhere.ts", "--json");
    expect(status).toBe(2);
    expect(JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "")).toEqual({
      error: expect.stringMatching(/there is no task file .*nowhere\.ts/),
    });
    expect(stderr).toMatch(/^hone: there is no task file/);
  });

  it("help COMMAND is COMMAND --help, and refuses a word that is none", async () => {
    const asked = await told("help", "metrics");
    expect(asked).toEqual(await told("metrics", "--help"));
    expect(asked.stdout).toMatch(/\nmismatch +Mean distance between the engine/);
    expect(await told("help", "metrik")).toMatchObject({
      status: 2,
      stderr: "hone: there is no command metrik; did you mean metrics?\n",
    });
  });

  it("plays a task file's scenarios with its expert, and prints one JSON object last", () => {
    const task = join(packageRoot, "examples/arithmetic.ts");
    const { status, stdout, stderr } = hone(
      "rollout",
      "--task",
      task,
      "--expert",
      "--n",
      "3",
      "--group-size",
      "2",
      "--json",
    );
    expect(stderr).toMatch(/6 rollouts in 3 groups/);
    expect(status).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    expect(lines).toHaveLength(1);
    const result = JSON.parse(lines[0] ?? "") as Record<string, unknown>;
    expect(result).toMatchObject({
      rollouts: 6,
      groups: 3,
      answered: 6,
      success: 1,
      ends: { answered: 6 },
      tool_errors: {},
      interrupted: false,
    });
    expect(readdirSync(join(folder, ".hone/rollouts"))).toHaveLength(1);
  });
});

it("reads a project's config file, but not for the demo, which is the same everywhere", async () => {
  const file = join(folder, "hone.config.json");
  writeFileSync(file, JSON.stringify({ steps: "many" }));
  try {
    for (const [command, said] of [
      ["train", /hone\.config\.json.*steps/],
      ["demo", /there is no model nothing-of-that-name/],
    ] as const) {
      const { status, stderr } = await told(command, "--model", "nothing-of-that-name", "--home", join(folder, "none"));
      expect([command, status, stderr]).toEqual([command, 2, expect.stringMatching(said)]);
    }
  } finally {
    rmSync(file);
  }
});
