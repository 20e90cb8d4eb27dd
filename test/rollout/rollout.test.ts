import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { hermes } from "../../src/chat/formats/hermes.js";
import { jsonSchema } from "../../src/chat/json-schema.js";
import { playRollout, type RolloutLimits, type Waiting } from "../../src/core/rollout/rollout.js";
import type { Session, Turn, TurnLimits } from "../../src/core/rollout/session.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import type { ToolParameters } from "../../src/core/task/parameters.js";
import { type AnyTask, type ChatMessage, defineTool, type Scenario } from "../../src/core/task/task.js";
import { Random } from "../../src/core/util/random.js";
import { checkResults } from "../../src/guards/given.js";
import { ExpertSession } from "../../src/hone/expert-session.js";
import { countingTask } from "../support/counting-task.js";
import { trajectoryOf } from "../train/support/fakes.js";

const task = countingTask as unknown as AnyTask;
const [scenario] = (await task.scenarios({})) as [Scenario];
const limits: RolloutLimits = {
  maxTurns: 4,
  maxTokens: 100,
  turnSeconds: 5,
  toolSeconds: 0.2,
  rolloutSeconds: 10,
  onToolError: "observe",
};

/** A player that writes the given texts, one a turn. */
class Script implements Session {
  readonly heard: ChatMessage[] = [];
  readonly #turns: (string | Partial<Turn>)[];

  constructor(...turns: (string | Partial<Turn>)[]) {
    this.#turns = turns;
  }

  async turn(_limits: TurnLimits): Promise<Turn> {
    const next = this.#turns.shift() ?? "I have nothing more to say.";
    const turn = typeof next === "string" ? hermes.read(next, []) : { content: "", calls: [], ...next };
    return { completionTokens: 7, stop: "stop", ...turn };
  }

  respond(messages: readonly ChatMessage[]): void {
    this.heard.push(...messages);
  }

  promptTokens = () => 3;
  close = () => undefined;
}

const call = (name: string, args: unknown) => `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`;
const play = (session: Session, more: Partial<RolloutLimits> = {}, signal = new AbortController().signal) =>
  playRollout({ task, scenario, env: undefined, session, limits: { ...limits, ...more }, signal });

/** As `play`, while as much time passes as the test says. */
async function playAfter(milliseconds: number, ...asked: Parameters<typeof play>) {
  vi.useFakeTimers();
  try {
    const outcome = play(...asked);
    await vi.advanceTimersByTimeAsync(milliseconds);
    return await outcome;
  } finally {
    vi.useRealTimers();
  }
}

describe("a rollout", () => {
  it("runs calls, tells their results and ends with the answer", async () => {
    const script = new Script(
      { ...hermes.read(call("add", { a: 1, b: 1 }), []), waitedSeconds: 2 },
      { ...hermes.read(call("answer", { value: 2 }), []), waitedSeconds: 3 },
    );
    const outcome = await play(script);
    expect(outcome).toMatchObject({
      end: "answered",
      turns: 2,
      answer: { value: 2 },
      completionTokens: 14,
      promptTokens: 3,
      seconds: { queue: 5 },
    });
    expect(outcome.reward).toEqual({ reward: 1, success: true, parts: { right: 1 } });
    expect(script.heard).toEqual([{ role: "tool", name: "add", content: '{"sum":2}' }]);
    expect(outcome.messages.map((message) => message.role)).toEqual([
      "system",
      "user",
      "assistant",
      "tool",
      "assistant",
    ]);
    expect(outcome.calls[0]).toEqual({
      turn: 1,
      name: "add",
      arguments: { a: 1, b: 1 },
      outcome: "ok",
      result: { sum: 2 },
    });
  });

  it("runs several calls of one turn in order and ignores what follows the answer", async () => {
    const outcome = await play(
      new Script(
        call("add", { a: 1, b: 2 }) +
          call("add", { a: 3, b: 4 }) +
          call("answer", { value: 2 }) +
          call("add", { a: 5, b: 5 }),
      ),
    );
    expect(outcome.end).toBe("answered");
    expect(outcome.calls.map((record) => record.result)).toEqual([{ sum: 3 }, { sum: 7 }, "ok"]);
  });

  it.each([
    ["malformed", "<tool_call>{oops</tool_call>", /not valid JSON/],
    [
      "unknown_tool",
      call("toolbench_rapid_search", {}),
      /no tool is called toolbench_rapid_search; there are add, misbehave, answer/,
    ],
    ["unknown_tool", call("ad", {}), /did you mean add/],
    ["bad_arguments", call("add", { a: 1, b: "2" }), /b: .*add takes a, b/],
    ["bad_arguments", call("add", { a: 1, b: 2, message_ids: [] }), /message_ids.*add takes a, b/],
    ["tool_error", call("add", { a: -1, b: 2 }), /must not be negative/],
  ])("shows the model a short error for a call that is %s, and goes on", async (outcome, text, error) => {
    const script = new Script(text, call("answer", { value: 2 }));
    const result = await play(script);
    expect(result.end).toBe("answered");
    expect(result.calls[0]?.outcome).toBe(outcome);
    const heard = JSON.parse(script.heard[0]?.content ?? "") as { error: string };
    expect(heard.error).toMatch(error);
    expect(heard.error.length).toBeLessThan(300);
  });

  it.each(["<tool_call>{oops</tool_call>", call("nope", {}), call("add", { a: 1 })])(
    "ends at a bad call under `stop`, as ART does: %s",
    async (text) => {
      expect(await play(new Script(text), { onToolError: "stop" })).toMatchObject({ end: "bad_call", turns: 1 });
    },
  );

  it("goes on after a tool's refusal also under `stop`: the call itself was good", async () => {
    const script = new Script(call("add", { a: -1, b: 2 }), call("answer", { value: 2 }));
    expect(await play(script, { onToolError: "stop" })).toMatchObject({ end: "answered" });
  });

  it("keeps plain text as the last message", async () => {
    const outcome = await play(new Script("It is two."));
    expect(outcome).toMatchObject({ end: "no_tool_call", turns: 1, answer: undefined });
    expect(outcome.messages.at(-1)).toEqual({ role: "assistant", content: "It is two." });
  });

  it("ends at the turn limit", async () => {
    const outcome = await play(new Script(...Array.from({ length: 9 }, () => call("add", { a: 1, b: 1 }))), {
      maxTurns: 3,
    });
    expect(outcome).toMatchObject({ end: "turn_limit", turns: 3 });
    expect(outcome.calls).toHaveLength(3);
  });

  it.each([
    ["length", "token_limit", 1],
    ["deadline", "deadline", 1],
  ] as const)("names the end of a turn that stopped by %s", async (stop, end, turns) => {
    expect(await play(new Script({ content: "uh", stop }))).toMatchObject({ end, turns });
  });

  it("does not count a turn for which the context had no room", async () => {
    const outcome = await play(new Script(call("add", { a: 1, b: 1 }), { stop: "context", completionTokens: 0 }));
    expect(outcome).toMatchObject({ end: "context_limit", turns: 1 });
  });

  it.each([
    ["throw", /the tool misbehave failed: disk on fire/],
    ["hang", /misbehave did not return within 0\.2 seconds/],
    ["huge", /misbehave returned 10\.0 million characters/],
    ["circular", /the tool misbehave failed: .*circular/i],
  ])("ends with the tool's name when a tool does %s", async (how, reason) => {
    const outcome = await play(new Script(call("misbehave", { how })));
    expect(outcome.end).toBe("tool_failure");
    expect(outcome.reason).toMatch(reason);
    expect(outcome.reward.success).toBe(false);
  });

  /** Writes until the rollout's time is over, of which it waited a share for the engine. */
  const slow = (waited: number): Session => {
    const session = new Script();
    session.turn = async ({ over }) => {
      const asked = performance.now();
      await new Promise((resolve) => over?.addEventListener("abort", resolve, { once: true }));
      const waitedSeconds = (waited * (performance.now() - asked)) / 1000;
      return { content: "uh", calls: [], completionTokens: 3, stop: "deadline", waitedSeconds };
    };
    return session;
  };

  it.each([
    ["the engine was busy with others", 0.9, "queue"],
    ["it wrote too long itself", 0.1, "generation"],
  ])("says whose a deadline was: %s", async (_, waited, deadlineCause) => {
    const outcome = await playAfter(5000, slow(waited), { rolloutSeconds: 5 });
    expect(outcome).toMatchObject({ end: "deadline", deadlineCause });
  });

  it("breaks off where a turn has used up its time: the engine is too slow", async () => {
    const session = new Script(call("misbehave", { how: "nap" }));
    const first = session.turn.bind(session);
    let turns = 0;
    const asked: (number | undefined)[] = [];
    session.turn = async (limits) => {
      asked.push(limits.seconds);
      if (turns++ === 0) return first(limits);
      return { content: "", calls: [], completionTokens: 0, stop: "deadline", waitedSeconds: 0 };
    };
    const outcome = await play(session, { toolSeconds: 5, turnSeconds: 7 });
    expect(asked).toEqual([7, 7]);
    expect(outcome).toMatchObject({ end: "deadline", turns: 1, deadlineCause: "turn" });
    expect(outcome.reason).toBe("turn 2 used up its 7 seconds (--turn-timeout)");
  });

  it("says that tools used up the time, also when one still runs", async () => {
    const napping = new Script(call("misbehave", { how: "nap" }));
    const after = await playAfter(200, napping, { toolSeconds: 5, rolloutSeconds: 0.1 });
    expect(after).toMatchObject({ end: "deadline", deadlineCause: "tools" });
    expect(after.reason).toMatch(/time was over after 0\.1 seconds of the tool misbehave/);
  });

  it("does not blame the tool that runs when the player's writing has left it no time", async () => {
    const session = new Script();
    session.turn = async () => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      return { ...hermes.read(call("misbehave", { how: "hang" }), []), completionTokens: 9, stop: "stop" };
    };
    const outcome = await playAfter(300, session, { toolSeconds: 5, rolloutSeconds: 0.2 });
    expect(outcome).toMatchObject({ end: "deadline", deadlineCause: "generation" });
  });

  it("counts turns without a limit of their own, which end by their tokens, for no limit of the rollout; tools do count", async () => {
    const session = new Script();
    session.turn = async () => {
      await new Promise((resolve) => setTimeout(resolve, 60_000));
      return { ...hermes.read(call("add", { a: 1, b: 1 }), []), completionTokens: 9, stop: "stop" };
    };
    const endless = { turnSeconds: Number.POSITIVE_INFINITY, rolloutSeconds: 5 };
    expect(await playAfter(240_000, session, endless)).toMatchObject({ end: "turn_limit", turns: 4 });

    const turn = session.turn.bind(session);
    session.turn = async (limits) => ({
      ...(await turn(limits)),
      ...hermes.read(call("misbehave", { how: "hang" }), []),
    });
    const hung = await playAfter(66_000, session, { ...endless, toolSeconds: 600 });
    expect(hung).toMatchObject({ end: "deadline", turns: 1, deadlineCause: "tools" });
  });

  it("keeps what the task's code does to messages, calls, arguments and the scenario from what is recorded", async () => {
    const hostile: AnyTask = {
      ...task,
      tools: task.tools.map((tool) => ({
        ...tool,
        execute: (args: Record<string, unknown>, context) => {
          const result = tool.execute({ ...args }, context);
          for (const name of Object.keys(args)) args[name] = "changed";
          return result;
        },
      })),
      reward: (finished, given) => {
        (finished.messages as ChatMessage[]).reverse().pop();
        (finished.calls as unknown[]).length = 0;
        (given as { question: string }).question = "changed";
        return { reward: 1, success: true, parts: {} };
      },
    };
    const texts = [call("add", { a: 1, b: 1 }), call("answer", { value: 2 })];
    const before = structuredClone(scenario);
    const input = { scenario, env: undefined, limits, signal: new AbortController().signal };
    const [plain, changed] = [
      await play(new Script(...texts)),
      await playRollout({ ...input, task: hostile, session: new Script(...texts) }),
    ];
    expect([changed.messages, changed.calls, changed.answer]).toEqual([plain.messages, plain.calls, plain.answer]);
    expect(scenario).toEqual(before);
  });

  it("gives null for a tool that returns nothing", async () => {
    const script = new Script(call("misbehave", { how: "nothing" }), call("answer", { value: 2 }));
    await play(script);
    expect(script.heard[0]?.content).toBe("null");
  });

  it("stops at once when it is cancelled, even inside a tool", async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error("enough")), 30);
    const outcome = play(new Script(call("misbehave", { how: "hang" })), { toolSeconds: 600 }, controller.signal);
    // The tool hangs for longer than this test may take.
    await expect(outcome).rejects.toThrow("enough");
  });

  it("rejects when the reward is not a number: that is the task's defect", async () => {
    const broken = { ...task, reward: () => ({ reward: Number.NaN, success: false, parts: {} }) };
    const signal = new AbortController().signal;
    const input = { task: broken, scenario, env: undefined, session: new Script(), limits, signal };
    await expect(playRollout(input)).rejects.toThrow(/reward of task counting for scenario c1 is NaN/);
  });

  it("says what it waits for, turn by turn", async () => {
    const seen: Waiting[] = [];
    const session = new Script(call("add", { a: 1, b: 1 }), call("answer", { value: 2 }));
    const signal = new AbortController().signal;
    await playRollout({ task, scenario, env: undefined, session, limits, signal, onWaiting: (w) => seen.push(w) });
    expect(seen.map(({ turn, for: what }) => `${turn} ${what}`)).toEqual([
      "0 the task's prompt",
      "1 the player",
      "1 the tool add",
      "2 the player",
      "2 the tool answer",
      "2 the reward",
    ]);
  });

  it("is played by the task's expert when there is no model", async () => {
    const session = new ExpertSession(task, scenario, new Random(1), {});
    expect(await play(session)).toMatchObject({ end: "answered", reward: { success: true }, turns: 2 });
  });
});

describe("integers beyond 2^53 - 1", () => {
  const order = 1234567890123456789n;
  const finding = (parameters: ToolParameters, execute: (args: Record<string, unknown>) => unknown) => {
    const tool = defineTool({ name: "find", description: "Find.", parameters, execute: (args) => execute(args) });
    return { ...task, tools: [tool, ...task.tools] } as unknown as AnyTask;
  };
  const written = '<tool_call>{"name": "find", "arguments": {"order": 1234567890123456789}}</tool_call>';
  const playing = async (task: AnyTask) => {
    const script = new Script(written, call("answer", { value: 2 }));
    const signal = new AbortController().signal;
    const { calls, end } = await playRollout({ task, scenario, env: undefined, session: script, limits, signal });
    return { call: calls[0], end, heard: script.heard[0]?.content };
  };
  const schema = jsonSchema({ type: "object", properties: { order: { type: "integer" } } });

  it("reach the tool as they were sampled, and come back in its result", async () => {
    for (const parameters of [z.object({ order: z.bigint() }), schema]) {
      const { call, heard } = await playing(finding(parameters, (args) => ({ found: args.order })));
      expect(call).toMatchObject({ outcome: "ok", arguments: { order }, result: { found: order } });
      expect(heard).toBe('{"found":1234567890123456789}');
    }
  });

  it("are the model's mistake where the tool takes numbers alone", async () => {
    const adding = finding(schema, (args) => (args.order as number) + 1);
    const sending = finding(schema, (args) => JSON.stringify(args));
    const declared = finding(z.object({ order: z.number() }), () => 1);
    for (const task of [adding, sending, declared]) {
      const { call, end, heard } = await playing(task);
      expect([call?.outcome, end]).toEqual(["bad_arguments", "answered"]);
      expect(heard).toMatch(/beyond 9007199254740991/);
    }
  });
});

describe("what tools return", () => {
  const log: string[] = [];
  const values: Record<string, () => unknown> = {
    text: () => "a b",
    state: () => {
      log.push("seen");
      return { log };
    },
    date: () => new Date(0),
    order: () => ({ order: 1234567890123456789n }),
    nothing: () => undefined,
  };
  const parameters = z.object({ what: z.string() });
  const execute = ({ what }: { what: string }) => values[what]?.();
  const tool = defineTool({ name: "get", description: "Get.", parameters, execute });
  const getting = { ...task, tools: [tool, ...task.tools] } as unknown as AnyTask;
  const get = (...what: string[]) => what.map((one) => call("get", { what: one })).join("");
  const playing = async (...turns: string[]): Promise<Trajectory> => {
    const session = new Script(...turns);
    const signal = new AbortController().signal;
    const outcome = await playRollout({ task: getting, scenario, env: undefined, session, limits, signal });
    const tokens = { ids: [1, 2], sampled: [0, 1], logprobs: [0, -1] };
    const { messages, calls, turns: count } = outcome;
    return { ...trajectoryOf({}), messages, calls, turns: count, tokens };
  };

  it("is recorded as it was then, also where the tool goes on changing it", async () => {
    const { calls } = await playing(get("state"), get("state"), "Done.");
    expect(calls.map(({ result }) => result)).toEqual([{ log: ["seen"] }, { log: ["seen", "seen"] }]);
  });

  it("is what the model is given: a step with another text is stopped", async () => {
    const one = await playing(get("text", "state", "nothing"), get("date", "order"), get("text", "none"), "Done.");
    expect(one.messages.filter(({ role }) => role === "tool")).toHaveLength(7);
    expect(checkResults([one])).toBeUndefined();
    for (const [at, message] of one.messages.entries()) {
      if (message.role !== "tool") continue;
      const messages = one.messages.with(at, { ...message, content: `${message.content.slice(0, -1)}?` });
      expect(checkResults([{ ...one, messages }])).toMatch(/given another text than its call of get returned/);
    }
  });

  it("is not asked for of calls that a last turn left without an answer, nor of examples in the prompt", async () => {
    const one = await playing(get("text"), get("state") + call("answer", { value: 2 }));
    expect(one.calls).toHaveLength(3);
    expect(checkResults([one])).toBeUndefined();
    const example: ChatMessage[] = [
      { role: "assistant", content: "", tool_calls: [] },
      { role: "tool", name: "get", content: "an example" },
    ];
    expect(checkResults([{ ...one, messages: [...example, ...one.messages] }])).toBeUndefined();
  });
});
