/** `yarn eval` of several players: on the same scenarios, each with a column of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { mcNemar } from "../../src/insight/report/paired.js";
import { type Behaviour, chatServer } from "./support/chat-server.js";

const folder = mkdtempSync(join(tmpdir(), "hone-evaluate-"));
const cli = join(packageRoot, "dist/src/cli.js");
const task = join(packageRoot, "examples/arithmetic.ts");
const closers: (() => Promise<unknown>)[] = [];

beforeAll(() => ensureTestModels(["tiny"], () => undefined));
afterEach(() => Promise.all(closers.splice(0).map((close) => close())));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function server(behaviour: Behaviour = {}) {
  const made = await chatServer(behaviour);
  closers.push(made.close);
  return made;
}

async function evaluate(...flags: string[]) {
  return evaluating(flags, () => undefined);
}

/** @param during is told of the process */
async function evaluating(flags: readonly string[], during: (child: ChildProcess) => unknown) {
  const threads = flags.includes("--threads") ? [] : ["--threads", "1"];
  const args = [cli, "eval", "--json", "--gpu", "off", ...threads, ...flags];
  const child = spawn(process.execPath, args, { cwd: folder });
  const text = { out: "", err: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text.out += chunk;
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    text.err += chunk;
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  await during(child);
  const status = await ended;
  return { status, said: text.err, result: text.out === "" ? undefined : JSON.parse(text.out) };
}

interface Column {
  name: string;
  problem: string | null;
  result: {
    figures: { n: number; success: number };
    effort: { cost: number | null; promptTokens: number };
    outcomes: { scenario: string; success: boolean }[];
  } | null;
}

const solved = (columns: Column[], name: string) =>
  new Map(columns.find((one) => one.name === name)?.result?.outcomes.map((one) => [one.scenario, one.success]));

describe("an evaluation without a run", () => {
  it("plays the same scenarios with each, and says how they differ, what it cost and how sure it is", async () => {
    const api = await server();
    writeFileSync(join(folder, "prices.json"), JSON.stringify({ cheap: { prompt: 2, completion: 10 } }));
    const versus = `expert,cheap=some-model@${api.url},${modelPath("qwen2-tiny-f16.gguf")}`;
    const flags = ["--task", task, "--versus", versus, "--n", "6", "--max-turns", "1", "--max-tokens", "4"];
    const { status, said, result } = await evaluate(...flags, "--prices", "prices.json", "--page", "sub/eval.html");
    expect(status, said).toBe(0);
    const columns: Column[] = result.columns;
    expect(columns.map(({ name, problem }) => [name, problem])).toEqual([
      ["expert", null],
      ["cheap", null],
      [modelPath("qwen2-tiny-f16.gguf"), null],
    ]);
    const ids = result.scenarios.map(({ id }: { id: string }) => id);
    expect(ids).toHaveLength(6);
    for (const { name } of columns) expect([...solved(columns, name).keys()].sort(), name).toEqual([...ids].sort());
    // One turn does not suffice for the expert: it calculates first.
    expect(columns.map(({ result }) => result?.figures.n)).toEqual([6, 6, 6]);

    expect(api.chats()).toBe(6);
    const [, cheap, tiny] = columns;
    expect(cheap?.result?.effort).toMatchObject({ promptTokens: 6 * 50, cost: (6 * (2 * 50 + 10 * 9)) / 1e6 });
    expect(tiny?.result?.effort.cost).toBeNull();

    expect(result.pairs).toHaveLength(3);
    for (const { first, second, success } of result.pairs) {
      const [one, other] = [solved(columns, first), solved(columns, second)];
      const alone = (a: Map<string, boolean>, b: Map<string, boolean>) =>
        ids.filter((id: string) => a.get(id) && !b.get(id)).length;
      expect(success).toMatchObject({ n: 6, first: alone(one, other), second: alone(other, one) });
      expect(success.p).toBe(mcNemar(success.first, success.second));
    }
    expect(said).toMatch(/points of success +p +reward +n/);
    expect(readFileSync(join(folder, "sub/eval.html"), "utf8")).toContain('id="evaluation"');
  });

  it("keeps what was played where its page cannot be written", async () => {
    const { status, said, result } = await evaluate("--task", task, "--versus", "expert", "--n", "2", "--page", ".");
    expect(status).toBe(1);
    expect(said).toMatch(/^hone: --page \. cannot be written: /m);
    expect(result.columns[0].result.figures).toMatchObject({ n: 2, success: 1 });
  });

  it("leaves a cost open that the server does not say the tokens for", async () => {
    const api = await server({ unbilled: true });
    const { status, result } = await evaluate("--task", task, "--versus", `gpt-4o@${api.url}`, "--n", "2");
    expect(status).toBe(0);
    expect(result.columns[0].result.effort.cost).toBeNull();
  });

  it("loses the column of a player that breaks down, and no other", async () => {
    const api = await server({ upTo: 2 });
    const flags = ["--task", task, "--versus", `broke=m@${api.url},expert`, "--n", "5", "--concurrency", "1"];
    const { status, said, result } = await evaluate(...flags);
    expect(status).toBe(1);
    expect(said).toMatch(/broke broke down: .*out of credits/);
    expect(said).toContain("hone: 1 of 2 players have no result: broke");
    const [broke, expert]: Column[] = result.columns;
    expect(broke?.result).toBeNull();
    expect(broke?.problem).toContain("out of credits");
    expect(expert?.result?.figures).toMatchObject({ n: 5, success: 1 });
    expect(result.pairs).toEqual([]);
  });

  it("keeps what was played before it is interrupted", async () => {
    const api = await server({ hangs: true });
    const flags = ["--task", task, "--versus", `expert,slow=m@${api.url}`, "--n", "3"];
    const { status, said, result } = await evaluating(flags, async (child) => {
      await expect.poll(() => api.chats()).toBeGreaterThan(0);
      child.kill("SIGINT");
    });
    expect(status, said).toBe(1);
    const [expert, slow]: Column[] = result.columns;
    expect(expert?.result?.figures.n).toBe(3);
    expect(slow?.problem).toBe("interrupted while slow was evaluated");
  });

  it("plays two models one after the other on one engine at a time", async () => {
    const models = ["qwen2-tiny-f16.gguf", "llama-tiny-f16.gguf"].map((name, i) => `m${i}=${modelPath(name)}`);
    const flags = ["--task", task, "--versus", models.join(), "--n", "2", "--max-turns", "1", "--max-tokens", "4"];
    const { status, said, result } = await evaluate(...flags);
    expect(status, said).toBe(0);
    expect(result.columns.map(({ result }: Column) => result?.figures.n)).toEqual([2, 2]);
    expect(said.match(/^engine: /gm)?.length ?? 0, said).toBe(2);
  });
});

describe("what cannot be played is said before anything is", () => {
  it.each<[string, string[], number, string]>([
    ["a name twice", ["--versus", "expert,expert"], 2, "expert is there twice"],
    ["an unknown model", ["--versus", "expert,qwen-3.5"], 2, "--versus: there is no model qwen-3.5"],
    ["a missing file", ["--versus", "gone.gguf"], 2, "--versus: there is no file"],
    ["a price table that is none", ["--versus", "expert", "--prices", "gone.json"], 2, "--prices: there is no file"],
    ["a run's scenarios without a run", ["--versus", "expert", "--fresh"], 2, "--fresh is for checkpoints of a run"],
    [
      "a run's weights without a run",
      ["--versus", "expert", "--model", "tiny"],
      2,
      "--model is for checkpoints of a run",
    ],
    ["no URL", ["--versus", "m@http://:x"], 2, "is no URL"],
  ])("%s", async (_, flags, status, message) => {
    const api = await server();
    const [, versus, ...others] = flags;
    const answer = await evaluate("--task", task, "--versus", `${versus},last=m@${api.url}`, ...others);
    expect(answer.said).toContain(message);
    expect(answer.status).toBe(status);
    expect(answer.said.trim().split("\n")).toHaveLength(1);
    expect(api.chats()).toBe(0);
  });

  it("an API that nobody answers at, and one that refuses the key", async () => {
    const api = await server();
    const refuses = await server({ always: 401 });
    const gone = await chatServer();
    await gone.close();
    const unreachable = await evaluate("--task", task, "--versus", `a=m@${api.url},b=m@${gone.url}`);
    expect(unreachable.status).toBe(1);
    expect(unreachable.said).toMatch(/^hone: --versus b: http.* cannot be asked: .*ECONNREFUSED/);
    const refused = await evaluate("--task", task, "--versus", `a=m@${api.url},b=m@${refuses.url}`);
    expect(refused.status).toBe(1);
    expect(refused.said).toContain("give its key with --player-key or HONE_PLAYER_KEY");
    expect(api.chats()).toBe(0);
  });

  it("a key that would go to two servers", async () => {
    const [one, other] = [await server(), await server()];
    const versus = `a=m@${one.url},b=m@${other.url}`;
    const answer = await evaluate("--task", task, "--versus", versus, "--player-key", "sk-secret");
    expect(answer).toMatchObject({ status: 2, said: expect.stringContaining("--player-key would go to http") });
    expect([...one.asked, ...other.asked]).toEqual([]);
    const single = await evaluate("--task", task, "--versus", `m@${one.url}`, "--player-key", "sk-secret", "--n", "1");
    expect(single.status, single.said).toBe(0);
    expect(new Set(one.asked.map(({ key }) => key))).toEqual(new Set(["Bearer sk-secret"]));
  });

  it("checkpoints of runs of different tasks", async () => {
    for (const name of ["mail", "sums"]) {
      const at = join(folder, ".hone", name, "models", name);
      mkdirSync(at, { recursive: true });
      const store = RunStore.open(join(at, "run.sqlite"));
      const contents = { model: "ab", task: name };
      store.begin(
        { name, created: "2031-01-01T00:00:00Z", options: { model: "tiny", task }, contents },
        { checkpoint: null, adapter: null },
      );
      store.close();
    }
    expect(existsSync(join(folder, ".hone/mail/models/mail/run.sqlite"))).toBe(true);
    const { status, said } = await evaluate("--checkpoint", "mail@base,sums@base");
    expect(said).toContain("the run sums was trained on the task sums, mail on mail");
    expect(status).toBe(2);
  });
});
