/** An agent's errors cost its own rollout, and say what it did; the others on the same thread play on. */
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Gathered } from "../../src/core/gather/gather.js";
import { brokenOff } from "../../src/core/rollout/deadline.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { playTask, support } from "./support/playing.js";

const scenarioOf = (question: string) => ({ id: question, split: "train" as const, question });
const notes: string[] = [];
let played: Gathered;

const moods = [
  "throws",
  "throws later",
  "rejects",
  "exits",
  "is no number",
  "asks nothing",
  "goes on too long",
  "is first",
  "uses other keys",
  "asks for options",
  "goes away",
  "runs programs",
  "tree",
  "behaves well",
];

beforeAll(async () => {
  played = await playTask(support("moods.ts"), moods.map(scenarioOf), {
    concurrency: 8,
    maxExceptions: 100,
    limits: { maxTurns: 8, maxTokens: 90 },
    onNote: (text) => notes.push(text),
  });
});

const failureOf = (mood: string) => played.failures.find(({ id }) => id === `${mood}/0`)?.error;
const playedAs = (mood: string) => played.groups.flat().find(({ scenario }) => scenario.id === mood) as Trajectory;
const seen = (mood: string) =>
  [...(playedAs(mood).output ?? "").matchAll(/^SEEN (.*)$/gm)].map(([, json]) => JSON.parse(json as string));

test("an agent that throws fails with its own last output", () => {
  expect(failureOf("throws")).toBe("no such mail; its last output:\n  I look for the mail\n  and do not find it");
});

test.each([
  ["throws later", /^in a timer/],
  ["rejects", /^awaited by nobody/],
  ["exits", /called process\.exit\(3\)/],
  ["is no number", /rollout returned NaN; return a finite number/],
  ["asks nothing", /without a turn of the model/],
])("one that %s fails", (mood, message) => {
  expect(failureOf(mood)).toMatch(message);
});

test("the others are played to their end", () => {
  expect(played.failures.map(({ id }) => id).sort()).toEqual(
    ["throws", "throws later", "rejects", "exits", "is no number", "asks nothing"].map((mood) => `${mood}/0`).sort(),
  );
  expect(playedAs("behaves well")).toMatchObject({ end: "answered", reward: { reward: 1, success: true } });
});

test("one that never ends is ended by its turns, and earns nothing", () => {
  expect(playedAs("goes on too long")).toMatchObject({
    end: "turn_limit",
    turns: 8,
    reward: { reward: 0, success: false },
    reason: expect.stringContaining("--max-turns"),
  });
});

test("of 1,000 requests at once few wait, the rest is refused, and others play meanwhile", async () => {
  const { groups, failures } = await playTask(
    support("moods.ts"),
    ["asks too much at once", "behaves well"].map(scenarioOf),
    { concurrency: 2, limits: { maxTurns: 1000 } },
  );
  expect(failures).toEqual([]);
  const [flood, other] = groups.flat() as [Trajectory, Trajectory];
  const counts = JSON.parse(/^SEEN (.*)$/m.exec(flood.output ?? "")?.[1] ?? "");
  // Sixteen at once and 48 that wait.
  expect(counts).toEqual({ 200: 64, 429: 936 });
  expect(flood.agent).toEqual({ completions: 64, sequences: 64, refused: 936 });
  expect(other.reward.success).toBe(true);
});

test("keys of other rollouts open nothing: an ended one is told apart from one that never was", () => {
  expect(seen("uses other keys")).toEqual([
    ["The rollout of this key has ended.", [410, "rollout_ended"], [401, "invalid_api_key"], [401, "invalid_api_key"]],
  ]);
});

test("options that change the distribution are refused, the temperature is the run's, forms are only checked", () => {
  const [statuses] = seen("asks for options");
  // Cut short, what the model wrote is no call.
  const noCall = expect.stringContaining("call");
  expect(statuses).toEqual({
    top_p: 400,
    top_k: 400,
    min_p: 400,
    seed: 400,
    presence_penalty: 400,
    completions: 400,
    temperature: 200,
    strict: [200, { schema_problem: "it is not JSON" }, ["response_format"]],
    loose: [200, { schema_problem: "it is not JSON" }, ["response_format"]],
    calls: [200, { call_problem: noCall }, ["tool_choice", "parallel_tool_calls", "strict of the function 'look'"]],
    topP: "AI_UnsupportedFunctionalityError",
    strictTools: [
      [
        {
          type: "unsupported",
          feature: "strict of the function 'look'",
          details: expect.stringContaining("callProblem"),
        },
      ],
      expect.objectContaining({ callProblem: noCall }),
    ],
    toolChoice: "AI_ToolChoiceViolationError",
    warnings: [{ type: "unsupported", feature: "temperature", details: expect.stringContaining("sampled at 1") }],
    object: "AI_NoObjectGeneratedError",
  });
  // Once each, though asked for over HTTP and in-process.
  expect(notes.filter((note) => note.includes("temperature"))).toEqual([
    "the agent asks for the temperature 0; its turns are sampled at 1 (--temperature)",
  ]);
  for (const option of ["top_p", "response_format", "tool_choice", "strict of the function 'look'"]) {
    expect(new Set(notes.filter((note) => note.includes(option))).size).toBe(1);
  }
});

test("a client that goes away takes its turn with it, and the next is answered", () => {
  const [[first, hasText, finish, tokens]] = seen("goes away");
  expect([first, hasText]).toEqual(["AbortError", true]);
  expect([finish, tokens <= 5]).toEqual([expect.stringMatching(/^(stop|length)$/), true]);
  expect(playedAs("goes away").agent?.completions).toBe(1);
});

test("programs get the endpoint, and nothing of them is left", async () => {
  const [[url, pid, input], failures] = seen("runs programs");
  expect([url, input]).toEqual(["http://127.0.0.1:", "given"]);
  // A killed process keeps its number until the system's first process takes note of its end.
  await vi.waitFor(() => expect(() => process.kill(Number(pid), 0)).toThrow("ESRCH"), 300_000);
  expect(failures).toEqual([
    expect.stringMatching(/^sh -c .* ended with code 3$/),
    "there is no program no-such-program",
  ]);
  expect(playedAs("runs programs").reward).toEqual({ reward: 0.5, success: true, parts: { half: 0.5 } });
});

describe("a tree of conversations", () => {
  test("is several sequences, in which every sampled token is trained once", () => {
    const { tokens, branches = [], agent, messages, completionTokens } = playedAs("tree");
    expect(agent).toEqual({ completions: 8, sequences: 7, history_rewritten: 1 });
    const sequences = [tokens, ...branches.map((branch) => branch.tokens)].map((one) => one as NonNullable<typeof one>);
    const sampled = sequences.reduce((sum, one) => sum + one.sampled.filter((flag) => flag === 1).length, 0);
    expect(sampled).toBe(completionTokens);
    for (const { ids, sampled, logprobs } of sequences) {
      expect([sampled.length, logprobs.length]).toEqual([ids.length, ids.length]);
      logprobs.forEach((logprob, at) => {
        if (sampled[at] === 0) expect(logprob).toBe(0);
      });
    }
    // The conversation that went on in two ways is the first, and one other begins as it does with tokens that are given there.
    expect(messages.map(({ content }) => content)).toContain("Right?");
    const [first, left] = sequences as [NonNullable<typeof tokens>, NonNullable<typeof tokens>];
    const start = first.sampled.indexOf(1);
    expect(left.ids.slice(0, start + 3)).toEqual(first.ids.slice(0, start + 3));
    expect(left.sampled.slice(start, start + 3)).toEqual([0, 0, 0]);
    expect(left.sampled).toContain(1);
  });

  test("draws anew where it begins anew", () => {
    const texts = (playedAs("tree").branches ?? []).map(({ messages }) => messages);
    const answers = texts
      .filter(([first]) => first?.content === "Summarise")
      .map(([, answer]) => JSON.stringify(answer));
    expect(answers).toHaveLength(4);
    // A small model may say the same twice.
    expect(new Set(answers).size).toBeGreaterThan(1);
  });
});

test("the rollout's time aborts its signal; an agent that goes on nevertheless has failed", async () => {
  const { failures, groups } = await playTask(support("moods.ts"), ["hangs", "heeds its signal"].map(scenarioOf), {
    concurrency: 2,
    maxExceptions: 2,
    limits: { rolloutSeconds: 4 },
  });
  expect(failures).toEqual([
    {
      id: "hangs/0",
      error: expect.stringMatching(/did not end within 5 s .*--rollout-timeout.*\n {2}waiting for nothing/s),
    },
  ]);
  const [heeded] = groups.flat() as [Trajectory];
  expect(heeded).toMatchObject({ end: "deadline", reward: { reward: 0, success: false } });
  // Its own code used up the time: the model is not trained on that.
  expect(brokenOff(heeded)).toBe("deadline_tools");
});

test("one that blocks its thread is ended with it, and the others on the thread are played again", async () => {
  const { failures, groups } = await playTask(support("moods.ts"), ["blocks", "behaves well"].map(scenarioOf), {
    concurrency: 2,
    maxExceptions: 1,
    graceSeconds: 1,
    limits: { rolloutSeconds: 1 },
  });
  expect(failures).toEqual([
    {
      id: "blocks/0",
      error: expect.stringMatching(/^rollout blocks\/0 hangs: in turn 1 it has waited \d+ s for the agent$/),
    },
  ]);
  expect(groups.flat().map(({ scenario }) => scenario.id)).toEqual(["behaves well"]);
});

test("a player that is not hone's own model is refused in one line", async () => {
  const player = { kind: "expert", mistakes: 0 } as const;
  await expect(playTask(support("moods.ts"), [scenarioOf("behaves well")], { player })).rejects.toThrow(
    "the task moods is played by its own code (rollout), which gets the model that hone runs; give it with --model",
  );
});
