/** The README's lines for a newcomer, as they are written, with a small model of that name at a server that speaks as the Hub. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { blocksOf, commandsOf } from "../docs/blocks.js";
import { runHone } from "../models/support/cli.js";
import { HubServer } from "../support/hub-server.js";
import { ensureLearnerPython } from "../support/python.js";

const home = mkdtempSync(join(tmpdir(), "hone-newcomer-"));
const scripts: Record<string, string> = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")).scripts;
/** What is written there, made small enough for a CPU. */
const small = {
  HONE_GPU: "off",
  HONE_THREADS: "1",
  HONE_CONTEXT: "2048",
  HONE_GROUPS_PER_STEP: "1",
  HONE_GROUP_SIZE: "4",
  HONE_MAX_TOKENS: "4",
  HONE_MAX_TURNS: "1",
  HONE_VALIDATE_N: "1",
  HONE_VALIDATE_EVERY: "10",
  HONE_N: "2",
  // Random weights earn nothing that differs.
  HONE_CONTROL: "random-reward",
};
let server: HubServer;
let python: string;

beforeAll(async () => {
  python = await ensureLearnerPython();
  await ensureTestModels(["published"], () => undefined);
  const folder = modelPath("qwen2.5-small");
  const files = Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
  server = new HubServer({ "Qwen/Qwen2.5-0.5B-Instruct": files });
  await server.start();
}, 900_000);
afterAll(async () => {
  await server?.stop();
  rmSync(home, { recursive: true, force: true });
});

/** The seven lines, comments left out. */
function lines(): string[] {
  const block = blocksOf("README.md").find(({ name }) => name === "test/scripts/newcomer.full.test.ts");
  return block ? commandsOf(block) : [];
}

/** What yarn runs for a line: its script, with what follows. */
function command(line: string): { env: Record<string, string>; args: string[] } {
  const [, before = "", script = "", rest = ""] = /^((?:\w+=\S+ )*)yarn (\S+) ?(.*)$/.exec(line) ?? [];
  const [, own = ""] = /node dist\/src\/cli\.js ?(.*)$/.exec(scripts[script] ?? "") ?? [];
  const env = before.split(" ").flatMap((word): [string, string][] => {
    const [name, value] = word.split("=");
    return name && value ? [[name, value]] : [];
  });
  return { env: Object.fromEntries(env), args: [own, ...rest.split(" ")].filter((word) => word !== "") };
}

it("leads from nothing to a trained adapter", async () => {
  const [alias, install, doctor, ...others] = lines();
  expect([alias, install, doctor]).toEqual([
    "alias yarn='npx --yes yarn@1.22.22'",
    "yarn install --frozen-lockfile",
    "yarn doctor",
  ]);
  expect(others).toHaveLength(4);
  const said: string[] = [];
  for (const line of others) {
    const { env, args } = command(line);
    const ran = await runHone(home, args, {
      ...small,
      HF_ENDPOINT: server.endpoint,
      HONE_PYTHON: python,
      ...env,
    });
    expect([line, ran.status, ran.stderr]).toEqual([line, 0, ""]);
    said.push(ran.stdout);
  }
  const [, pulled = "", trained = "", evaluated = ""] = said;
  expect(pulled).toContain("Qwen--Qwen2.5-0.5B-Instruct-f16-");
  expect(trained).toMatch(/10 steps/);
  const run = join(home, ".hone/email/models/Qwen2.5-0.5B-Instruct");
  expect(readdirSync(join(run, "checkpoints"))).toContain("0010");
  expect(evaluated).toMatch(/base[\s\S]*10/);
}, 900_000);
