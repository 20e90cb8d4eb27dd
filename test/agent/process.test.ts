/** A program that does nothing beside a gathering goes on after it: idle threads do not keep a process alive. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { support } from "./support/playing.js";

const folder = mkdtempSync(join(tmpdir(), "hone-agent-process-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const program = (task: string) => `
import { gather } from ${JSON.stringify(join(packageRoot, "dist/src/core/gather/gather.js"))};
import { loadEngine } from ${JSON.stringify(join(packageRoot, "dist/src/engine/factory.js"))};

const model = ${JSON.stringify(join(packageRoot, "models/tiny/tiny.gguf"))};
const options = { model, gpu: false, threads: 1, lanes: 1, sequences: 2, contextPerSequence: 512 };
const engine = await loadEngine(options);
const seconds = { turnSeconds: 60, toolSeconds: 60, rolloutSeconds: 60 };
const { groups } = await gather({
  settings: {
    task: ${JSON.stringify(task)},
    taskOptions: {},
    player: { kind: "engine", engine: options, sampling: { temperature: 1 }, adapter: null },
    limits: { maxTurns: 6, maxTokens: 20, onToolError: "stop", ...seconds },
  },
  scenarios: [{ id: "m1", split: "train", question: "When is it?" }],
  ...{ groupSize: 1, seedName: 1, step: 1, concurrency: 1, workers: 1 },
});
await engine.close();
console.log("played", groups.flat().length);
`;

test("it is not ended while a thread ends what its agents have started", () => {
  const file = join(folder, "program.mjs");
  writeFileSync(file, program(support("mail-ai-sdk.ts")));
  const { stdout, status, stderr } = spawnSync(process.execPath, [file], { encoding: "utf8" });
  expect([stdout, status], stderr).toEqual(["played 1\n", 0]);
});
