// Needs a process of its own: an option that it adds is one of every command from then on.
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { optionsPage } from "../../bench/docs/options-page.js";
import { givenByProgram, isOwn, optionNames, options, ownOptions, readGiven } from "../../src/core/config/config.js";
import { text } from "../../src/core/config/option.js";
import { removedCommands, removedFlags } from "../../src/core/config/removed.js";
import { UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadCommands } from "../../src/hone/commands/commands.js";
import { loadConfig } from "../support/config.js";

const commands = await loadCommands();

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-config-"));
});

const writeConfig = (values: unknown) => writeFileSync(join(folder, "hone.config.json"), JSON.stringify(values));

describe("options", () => {
  it("are taken from flags, then environment, then config file, then defaults", async () => {
    const load = (flags: Record<string, unknown>, env: Record<string, string>) =>
      loadConfig(["maxTurns"], { flags, env, folder }).then((config) => config.maxTurns);

    expect(await load({}, {})).toBe(10);
    writeConfig({ maxTurns: 3 });
    expect(await load({}, {})).toBe(3);
    expect(await load({}, { HONE_MAX_TURNS: "4" })).toBe(4);
    expect(await load({ maxTurns: "5" }, { HONE_MAX_TURNS: "4" })).toBe(5);
    // As shells leave what they do not unset.
    expect(await load({}, { HONE_MAX_TURNS: "" })).toBe(3);
  });

  it("come from a TypeScript config file too", async () => {
    writeFileSync(join(folder, "hone.config.ts"), "const n: number = 7;\nexport default { maxTurns: n };\n");
    expect((await loadConfig(["maxTurns"], { folder })).maxTurns).toBe(7);
    writeConfig({ maxTurns: 3 });
    await expect(loadConfig(["maxTurns"], { folder })).rejects.toThrow(/^both .*\.ts and .*\.json exist; keep one/);
  });

  it("may be lists: repeated, separated by commas, or a JSON array", async () => {
    const load = (flags: Record<string, unknown>) => loadConfig(["loraTargets"], { flags, folder });
    expect((await load({ loraTargets: ["a,b", "c"] })).loraTargets).toEqual(["a", "b", "c"]);
    writeConfig({ loraTargets: ["x", "y"] });
    expect((await load({})).loraTargets).toEqual(["x", "y"]);
  });

  it("may be pairs, whose values are JSON or text, in one order however they are given", async () => {
    const load = (flags: Record<string, unknown>, env = {}) =>
      loadConfig(["templateArg"], { flags, env, folder }).then((config) => config.templateArg);
    expect(await load({})).toBeUndefined();
    const given = await load({ templateArg: ["enable_thinking=false", 'a=[1,"x=y"]', "date_string=26 Jul, 2024"] });
    expect(JSON.stringify(given)).toBe('{"a":[1,"x=y"],"date_string":"26 Jul, 2024","enable_thinking":false}');
    expect(await load({ templateArg: "budget=5" })).toEqual({ budget: 5 });
    expect(await load({}, { HONE_TEMPLATE_ARG: "budget=6" })).toEqual({ budget: 6 });
    writeConfig({ templateArg: { enable_thinking: true, budget: 7 } });
    expect(JSON.stringify(await load({}))).toBe('{"budget":7,"enable_thinking":true}');
    expect(await load({}, { HONE_TEMPLATE_ARG: "budget=6" })).toEqual({ budget: 6 });
  });

  it("read HF_HUB_OFFLINE=1 and HF_ENDPOINT as the Hugging Face tools do", async () => {
    const env = { HF_HUB_OFFLINE: "1", HF_ENDPOINT: "http://127.0.0.1:9" };
    const config = await loadConfig(["hfOffline", "hfEndpoint"], { env, folder });
    expect(config).toEqual({ hfOffline: true, hfEndpoint: "http://127.0.0.1:9" });
  });

  it.each([
    ["a flag out of range", { flags: { maxTurns: "0" } }, /--max-turns: "0" .*from 1 to 1000/],
    ["a number that is none", { flags: { n: "many" } }, /--n: "many" .*whole number/],
    ["more rollouts than an engine has", { flags: { concurrency: "257" } }, /--concurrency: "257" .*from 1 to 256/],
    ["the same in the environment", { env: { HONE_CONCURRENCY: "300" } }, /HONE_CONCURRENCY: "300" .*from 1 to 256/],
    ["a wrong choice in the environment", { env: { HONE_RANK: "best" } }, /HONE_RANK: "best" .*date, bm25/],
    [
      "an unknown variable",
      { env: { HONE_MAX_TURN: "3" } },
      /HONE_MAX_TURN is not an option; did you mean HONE_MAX_TURNS/,
    ],
    ["a pair without a value", { flags: { templateArg: ["a=1", "b"] } }, /--template-arg: \["a=1","b"\] .*NAME=VALUE/],
    [
      "an unknown format",
      { flags: { toolFormat: "xml" } },
      /--tool-format: "xml" .*auto, hermes, llama3, mistral, granite, pythonic, xlam, phi4, qwen3coder, lfm2, json/,
    ],
    [
      "a range that ends before it begins",
      { flags: { difficulty: "0.9..0.1" } },
      /--difficulty: "0\.9\.\.0\.1" .*0 to 1/,
    ],
    ["a secret without showing it", { flags: { judgeKey: 314159 } }, /^--judge-key: what was given is not/],
    ["an impossible date", { flags: { sentBefore: "2001-02-30" } }, /--sent-before: "2001-02-30" .*YYYY-MM-DD/],
  ])("refuse %s with the key, the value and what is accepted", async (_, sources, message) => {
    const error = await loadConfig(["n"], { ...sources, folder }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as Error).message).toMatch(message);
  });

  it("that were removed are told of with what to do instead: in the environment, a config file, a program", async () => {
    const message = "has been removed; it was an option of `plan`";
    await expect(readGiven({ env: { HONE_PROMPT_TOKENS: "600" }, folder })).rejects.toThrow(
      `environment: HONE_PROMPT_TOKENS ${message}`,
    );
    await expect(givenByProgram({ promptTokens: 600 }, ["n"])).rejects.toThrow(`options: promptTokens ${message}`);
    writeConfig({ promptTokens: 600 });
    await expect(readGiven({ folder })).rejects.toThrow(`hone.config.json: promptTokens ${message}`);
  });

  it("and commands that were removed are not there any more", () => {
    const names = commands.map(({ name }) => name);
    expect(Object.keys(removedCommands).filter((name) => names.includes(name))).toEqual([]);
    expect(Object.keys(removedFlags).filter((name) => Object.hasOwn(options, name))).toEqual([]);
  });

  it("refuse an unknown or wrong key of the config file, naming the file", async () => {
    writeConfig({ maxTurn: 3 });
    await expect(loadConfig(["n"], { folder })).rejects.toThrow(
      /hone\.config\.json: maxTurn is not an option; did you mean maxTurns/,
    );
    writeConfig({ maxTurns: "a few" });
    await expect(loadConfig(["n"], { folder })).rejects.toThrow(/hone\.config\.json: maxTurns: "a few" .*whole number/);
    writeFileSync(join(folder, "hone.config.json"), "{");
    await expect(loadConfig(["n"], { folder })).rejects.toThrow(/hone\.config\.json could not be read/);
  });

  it("are read from a config file with a byte order mark", async () => {
    writeFileSync(join(folder, "hone.config.json"), '\uFEFF{"n": 3}\n');
    expect(await loadConfig(["n"], { folder })).toMatchObject({ n: 3 });
  });

  it("name commands that there are, each of them, and each command what it takes", () => {
    const all = optionNames.filter((name) => !isOwn(name)).map((name) => options[name]);
    const names = new Set(commands.map(({ name }) => name));
    const named = all.flatMap(({ commands: taking, first }) =>
      taking === "every" ? [...first] : [...taking, ...first],
    );
    expect(named.filter((name) => !names.has(name))).toEqual([]);
    for (const { commands: taking, first } of all) {
      // The demo takes what training takes.
      if (taking !== "every") expect(taking).toEqual(expect.arrayContaining(first.filter((name) => name !== "demo")));
      expect(taking.length).toBeGreaterThan(0);
    }
    const [demo, train] = ["demo", "train"].map((name) => commands.find((command) => command.name === name));
    expect(demo?.options).toEqual(train?.options);
  });

  it("are all in docs/options.md as they are in the code", () => {
    expect(readFileSync(join(packageRoot, "docs/options.md"), "utf8")).toBe(optionsPage());
  });

  it("may be a room's own: read, checked and documented as all are, once their room is loaded", async () => {
    const own = ownOptions({ petName: text("Name of a pet.", { default: "Rex" }) });
    const load = (env: Record<string, string>) => loadConfig(["petName" as never], { env, folder });
    expect(await load({})).toEqual({ petName: "Rex" });
    writeConfig({ petName: "Bo" });
    expect(await load({})).toEqual({ petName: "Bo" });
    expect(await load({ HONE_PET_NAME: "Kit" })).toEqual({ petName: "Kit" });
    expect(() => ownOptions(own)).toThrow("there is an option petName already");
    expect(optionNames.filter((name) => !isOwn(name))).not.toContain("mailboxes");
    expect(optionsPage()).toContain("\n- `--mailboxes` (integer; default: `300`): ");
  });
});
