/** Agent tasks as `gather` plays them: on worker threads, with the tiny model in f32, so that one seed draws one thing. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LocalEngine } from "../../../src/core/engine/engine.js";
import { type Gathered, type GatherOptions, gather } from "../../../src/core/gather/gather.js";
import type { PlayerSpec } from "../../../src/core/rollout/player.js";
import type { RolloutLimits } from "../../../src/core/rollout/rollout.js";
import type { Scenario } from "../../../src/core/task/task.js";
import { packageRoot } from "../../../src/core/util/paths.js";
import { loadEngine } from "../../../src/engine/factory.js";
import { afterFile } from "../../support/after-file.js";
import { writeF32Copy } from "../../support/f32-model.js";

export const support = (name: string) => join(packageRoot, "test/agent/support", name);

const folder = mkdtempSync(join(tmpdir(), "hone-agent-"));
let engine: Promise<LocalEngine> | undefined;
const model = join(folder, "tiny-f32.gguf");
const common = { model, gpu: false, threads: 1, lanes: 1, sequences: 8 } as const;

/** Loaded once in a test file: the threads that play share it. */
export function opened(contextPerSequence = 2048): Promise<LocalEngine> {
  engine ??= writeF32Copy(join(packageRoot, "models/tiny/tiny.gguf"), model).then(() =>
    loadEngine({ ...common, contextPerSequence }),
  );
  return engine;
}
afterFile(async () => {
  const loaded = await engine;
  engine = undefined;
  await loaded?.close();
});

export interface Playing extends Partial<Omit<GatherOptions, "settings" | "scenarios">> {
  readonly limits?: Partial<RolloutLimits>;
  readonly player?: PlayerSpec;
  /** Tokens of a sequence; of a file's first call. Default 2048. */
  readonly context?: number;
}

export async function playTask(task: string, scenarios: readonly Scenario[], playing: Playing = {}): Promise<Gathered> {
  const { limits = {}, context = 2048, ...given } = playing;
  await opened(context);
  const options = { ...common, contextPerSequence: context };
  const engine: PlayerSpec = { kind: "engine", engine: options, sampling: { temperature: 1 }, adapter: null };
  const { player = engine, ...more } = given;
  const seconds = { turnSeconds: 60, toolSeconds: 60, rolloutSeconds: 120 };
  return gather({
    settings: {
      task,
      taskOptions: {},
      player,
      limits: { maxTurns: 6, maxTokens: 100, ...seconds, onToolError: "stop", ...limits },
    },
    scenarios,
    groupSize: 1,
    seedName: 1,
    step: 1,
    concurrency: 1,
    workers: 1,
    maxExceptions: 0,
    ...more,
  });
}
