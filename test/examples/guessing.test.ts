import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { chatOf } from "../../src/chat/chat.js";
import { EngineSession } from "../../src/core/rollout/engine-session.js";
import { opening, playRollout } from "../../src/core/rollout/rollout.js";
import type { Session } from "../../src/core/rollout/session.js";
import type { AnyTask, Scenario } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { loadEngine } from "../../src/engine/factory.js";
import { ExpertSession } from "../../src/hone/expert-session.js";
import { loadTask } from "../../src/scenarios/load.js";

const limits = {
  maxTurns: 8,
  maxTokens: 100,
  turnSeconds: 60,
  toolSeconds: 10,
  rolloutSeconds: 300,
  onToolError: "observe",
} as const;

let task: AnyTask;
let scenarios: readonly Scenario[];
beforeAll(async () => {
  task = await loadTask(join(packageRoot, "examples/guessing.ts"));
  scenarios = await task.scenarios({});
});

const play = (session: Session, scenario: Scenario) =>
  playRollout({ task, scenario, env: undefined, session, limits, signal: new AbortController().signal });
const expert = (scenario: Scenario, mistakes: number) =>
  play(new ExpertSession(task, scenario, new Random("expert", scenario.id), { mistakes }), scenario);

describe("the guessing example", () => {
  it("is solved by its expert every time, in plain text", async () => {
    for (const scenario of scenarios) {
      const { end, reward, answer, calls } = await expert(scenario, 0);
      expect({ end, success: reward.success, calls }).toEqual({ end: "answered", success: true, calls: [] });
      expect(answer).toEqual({ text: String((scenario as Scenario & { secret: number }).secret) });
      expect(reward.reward).toBeGreaterThanOrEqual(0.5);
    }
  });

  it("ends at the turn limit when the guesses do not get there", async () => {
    const far = scenarios.find((one) => (one as Scenario & { secret: number }).secret > 50) as Scenario;
    const { end, reward, answer } = await expert(far, 1);
    expect({ end, answer, success: reward.success }).toEqual({ end: "turn_limit", answer: undefined, success: false });
    expect(reward.reward).toBeGreaterThan(0);
    expect(reward.reward).toBeLessThan(0.3);
  });

  it("asks again when it hears no number", async () => {
    const context = { scenario: scenarios[0], env: undefined, messages: [], calls: [], turns: 1, maxTurns: 8 };
    const reply = await task.reply?.({ ...context, signal: new AbortController().signal } as never, "Hello!");
    expect(reply).toBe("Say a whole number from 1 to 100.");
  });

  it("is played by hone's tiny model, which is answered token for token as its template says", async () => {
    const model = join(packageRoot, "models/tiny/tiny.gguf");
    const engine = await loadEngine({ model, gpu: false, sequences: 1, contextPerSequence: 1024 });
    try {
      const chat = chatOf(engine);
      const scenario = scenarios[0] as Scenario;
      const first = opening(task, scenario, limits.maxTurns);
      expect(first.tools).toEqual([]);
      const prompt = Int32Array.from(chat.template.prompt(first.messages, []));
      const session = new EngineSession(engine, chat, engine.open(prompt), first, prompt, {
        temperature: 0,
        seed: 1,
      });
      const { messages, tokens, end, turns } = await play(session, scenario);
      session.close();
      expect(["answered", "no_tool_call", "turn_limit", "token_limit"]).toContain(end);
      // It never learnt this game, but it ends its turns. Between two of its turns stands the template's delta for
      // the user's reply, and nothing else.
      const replies = messages.slice(first.messages.length).filter(({ role }) => role === "user");
      expect(replies.length).toBeGreaterThan(1);
      const { ids = [], sampled = [] } = tokens ?? {};
      const runs: number[][] = [];
      for (let i = prompt.length; i < ids.length; i++) {
        if (sampled[i] === 1) continue;
        if (sampled[i - 1] === 1) runs.push([]);
        runs.at(-1)?.push(ids[i] as number);
      }
      const between = runs.filter((run) => run.join() !== String(chat.template.closing.id));
      const said = turns === limits.maxTurns && end === "turn_limit" ? replies.slice(0, -1) : replies;
      expect(between).toEqual(said.map((reply) => chat.template.delta(first.messages, [], [reply], true)));
    } finally {
      await engine.close();
    }
  });
});
