import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Gathered, gather } from "../../src/core/gather/gather.js";
import { RolloutThreads } from "../../src/core/gather/threads.js";

const folder = mkdtempSync(join(tmpdir(), "hone-threads-"));
const taskFile = join(folder, "task.ts");
writeFileSync(
  taskFile,
  `
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { threadId } from "node:worker_threads";
import { defineTask, defineTool } from "hone";
import { z } from "${import.meta.resolve("zod")}";

export default defineTask({
  name: "diary",
  options: z.object({ diary: z.string() }),
  scenarios: () => [],
  open: ({ diary }) => {
    if (diary.endsWith("locked")) throw new Error("the key is missing");
    appendFileSync(diary, "open " + threadId + "\\n");
    return diary;
  },
  close: (diary) => {
    appendFileSync(diary, "close " + threadId + "\\n");
    if (diary.endsWith("torn")) throw new Error("the diary is torn");
  },
  prompt: (scenario) => [{ role: "user", content: scenario.question }],
  tools: [
    defineTool({
      name: "act",
      description: "Act.",
      parameters: z.object({ mood: z.string() }),
      final: true,
      execute: async ({ mood }) => {
        if (mood === "slow") await new Promise((resolve) => setTimeout(resolve, 600_000));
        if (mood === "block later")
          setInterval(() => {
            if (!existsSync(${JSON.stringify(join(folder, "block"))})) return;
            writeFileSync(${JSON.stringify(join(folder, "blocked"))}, "");
            for (;;);
          }, 5);
        return "done";
      },
    }),
  ],
  reward: (rollout, scenario) => {
    if (scenario.question === "no reward") throw new Error("cannot judge");
    return { reward: 1, success: true, parts: {} };
  },
  *expert(scenario) {
    yield [{ name: "act", arguments: { mood: scenario.question } }];
  },
});
`,
);

let diary: string;
let threads: RolloutThreads;

beforeEach(() => {
  diary = join(folder, "diary");
  rmSync(diary, { force: true });
  threads = new RolloutThreads();
});

afterEach(() => threads.close());

interface More {
  readonly maxTurns?: number;
  readonly mood?: string;
  readonly rolloutSeconds?: number;
  readonly kept?: RolloutThreads | undefined;
  readonly onNote?: (text: string) => void;
}

let step = 0;

function play({
  maxTurns = 3,
  mood = "good",
  rolloutSeconds = 20,
  kept = threads,
  onNote,
}: More = {}): Promise<Gathered> {
  const limits = { maxTurns, maxTokens: 10, turnSeconds: 5, toolSeconds: 9, rolloutSeconds } as const;
  return gather({
    settings: {
      task: taskFile,
      taskOptions: { diary },
      player: { kind: "expert", mistakes: 0 },
      limits: { ...limits, onToolError: "observe" },
    },
    scenarios: ["first", "second"].map((id) => ({ id, split: "test", question: mood })),
    groupSize: 2,
    seedName: "test",
    step: step++,
    concurrency: 4,
    workers: 1,
    maxExceptions: 4,
    threads: kept,
    ...(onNote === undefined ? {} : { onNote }),
  });
}

const events = () => readFileSync(diary, "utf8").trimEnd().split("\n");
const kinds = () => events().map((line) => line.split(" ")[0]);
const endsOf = ({ groups }: Gathered) => groups.flat().map(({ end }) => end);

describe("threads of rollouts", () => {
  it("close their environment at the end of the gathering, unless they are kept", async () => {
    expect(endsOf(await play({ kept: new RolloutThreads() }))).toHaveLength(4);
    expect(kinds()).toEqual(["open"]);
    rmSync(diary);
    const alone = await gather({
      settings: {
        task: taskFile,
        taskOptions: { diary },
        player: { kind: "expert", mistakes: 0 },
        limits: { maxTurns: 3, maxTokens: 9, turnSeconds: 5, toolSeconds: 1, rolloutSeconds: 20, onToolError: "stop" },
      },
      scenarios: [{ id: "one", split: "test", question: "good" }],
      groupSize: 2,
      seedName: "alone",
      step: 0,
      concurrency: 2,
    });
    expect(endsOf(alone)).toEqual(["answered", "answered"]);
    expect(kinds()).toEqual(["open", "close"]);
  });

  it("play several gatherings with one environment, which is closed with their owner", async () => {
    for (let i = 0; i < 3; i++) expect(endsOf(await play())).toEqual(Array(4).fill("answered"));
    expect(kinds()).toEqual(["open"]);
    await threads.close();
    expect(kinds()).toEqual(["open", "close"]);
  });

  it("are replaced where the settings are others", async () => {
    await play();
    await play({ maxTurns: 2 });
    expect(kinds()).toEqual(["open", "close", "open"]);
  });

  it("end with a gathering in which a rollout failed", async () => {
    const { failures } = await play({ mood: "no reward" });
    expect(failures).toHaveLength(4);
    expect(kinds()).toEqual(["open", "close"]);
    expect(endsOf(await play())).toEqual(Array(4).fill("answered"));
    expect(new Set(events().map((line) => line.split(" ")[1])).size).toBe(2);
  });

  it("end with a gathering in which a rollout ran out of time, with what its tool still does", async () => {
    expect(endsOf(await play({ mood: "slow", rolloutSeconds: 1 }))).toEqual(Array(4).fill("deadline"));
    await play({ rolloutSeconds: 1 });
    expect(kinds()).toEqual(["open", "close", "open"]);
  });

  it("are not used again where something that a rollout left behind blocks them", async () => {
    expect(endsOf(await play({ mood: "block later" }))).toEqual(Array(4).fill("answered"));
    writeFileSync(join(folder, "block"), "");
    await expect.poll(() => existsSync(join(folder, "blocked"))).toBe(true);
    expect(endsOf(await play())).toEqual(Array(4).fill("answered"));
    expect(kinds()).toEqual(["open", "open"]);
  });

  it("serve two gatherings at once, and those that are over after their owner closed", async () => {
    const both = await Promise.all([play(), play()]);
    expect(both.flatMap(endsOf)).toEqual(Array(8).fill("answered"));
    const late = play();
    await threads.close();
    expect(endsOf(await late)).toEqual(Array(4).fill("answered"));
    expect(kinds().filter((kind) => kind === "open")).toHaveLength(2);
    expect(kinds().filter((kind) => kind === "close")).toHaveLength(2);
  });

  it("end the gathering where the environment cannot be opened", async () => {
    diary = join(folder, "locked");
    await expect(play()).rejects.toThrow("the task diary cannot be opened: the key is missing");
  });

  it("tell of an environment that cannot be closed", async () => {
    diary = join(folder, "torn");
    rmSync(diary, { force: true });
    const notes: string[] = [];
    await play({ onNote: (text) => notes.push(text) });
    await threads.close();
    expect(notes).toEqual(["an environment was not closed: close of the task diary failed: the diary is torn"]);
  });
});
