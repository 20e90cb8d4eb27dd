/** A task whose scenarios name the mood of their rollouts, as a user's file: workers load it by its path. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { GatherOptions } from "../../../src/core/gather/gather.js";
import type { Trajectory } from "../../../src/core/rollout/trajectory.js";

export const taskFile = join(mkdtempSync(join(tmpdir(), "hone-gather-")), "task.ts");
writeFileSync(
  taskFile,
  `
import { defineTask, defineTool } from "hone";
import { z } from "${import.meta.resolve("zod")}";
import { writeFileSync } from "node:fs";

/** Of all threads. */
const first = () => {
  try {
    writeFileSync(new URL("blocked", import.meta.url), "", { flag: "wx" });
    return true;
  } catch {
    return false;
  }
};

/** Rollouts of this thread that have come to the tool and wait for others, by their mood. */
const here = { meet: 0, relay: 0, crowd: 0 };
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export default defineTask({
  name: "moody",
  scenarios: () => [],
  prompt: ({ question }) => {
    if (question === "endless prompt") for (;;);
    return [{ role: "user", content: question }];
  },
  tools: [
    defineTool({
      name: "act",
      description: "Act.",
      parameters: z.object({ mood: z.string() }),
      final: true,
      execute: async ({ mood }) => {
        if (mood === "throw") throw new Error("bad mood");
        if (mood === "exit") process.exit(3);
        // Without computing, which would take the time of other tests.
        if (mood === "block" || (mood === "block once" && first())) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
        if (mood === "meet") {
          here.meet++;
          while (here.meet < 8) await wait(5);
        }
        if (mood === "relay" && ++here.relay === 1) while (here.relay < 3) await wait(5);
        if (mood === "crowd") {
          if (++here.crowd > 3) throw new Error("too many at once");
          await wait(20);
          here.crowd--;
        }
        if (mood === "slow") await wait(600_000);
        await wait(20);
        return "done";
      },
    }),
  ],
  reward: (rollout, scenario) => {
    if (scenario.question === "no reward") throw new Error("cannot judge");
    return { reward: 1, success: true, parts: {} };
  },
  *expert(scenario, random) {
    yield [{ name: "act", arguments: { mood: scenario.question } }];
    void random;
  },
});
`,
);

/** Of rollouts of these moods. */
export const options = (moods: string[], more: Partial<GatherOptions> = {}): GatherOptions => ({
  settings: {
    task: taskFile,
    taskOptions: {},
    player: { kind: "expert", mistakes: 0 },
    limits: { maxTurns: 3, maxTokens: 10, turnSeconds: 5, toolSeconds: 1, rolloutSeconds: 20, onToolError: "observe" },
  },
  scenarios: moods.map((question, index) => ({ id: `${index}-${question}`, split: "test", question })),
  groupSize: 2,
  seedName: "test",
  step: 0,
  concurrency: 4,
  workers: 1,
  ...more,
});

export const ids = (groups: Trajectory[][]) => groups.map((group) => group.map((trajectory) => trajectory.id));
