/** What a rollout may take, by who plays it. */
import { expect, test } from "vitest";
import type { EngineOptions } from "../../src/core/engine/engine.js";
import { limitsOf } from "../../src/machine/play/player-options.js";

const asked = {
  maxTurns: 6,
  maxTokens: 64,
  toolTimeout: 30,
  rolloutTimeout: 600,
  taskTimeout: 60,
  onToolError: "observe",
  offForm: "keep",
} as const;

test.each([
  ["hone's engine ends a turn by its tokens", { threads: 1 }, undefined, Number.POSITIVE_INFINITY],
  ["a vLLM server has time", { kind: "vllm" }, undefined, 120],
  ["so has an API", undefined, undefined, 120],
  ["what is given holds for hone's engine, too", { threads: 1 }, 7, 7],
])("%s", (_, engine, turnTimeout, seconds) => {
  const limits = limitsOf({ ...asked, turnTimeout }, engine as EngineOptions | undefined);
  expect(limits.turnSeconds).toBe(seconds);
});
