import { describe, expect, it } from "vitest";
import type { CallOutcome, CallRecord, FinishedRollout, RolloutEnd } from "../../../src/core/task/task.js";
import type { EmailScenario } from "../../../src/email/scenario.js";
import { emailClaim, shapedReward } from "../../../src/email/shaped.js";

const scenario: EmailScenario = {
  id: "q1",
  split: "train",
  question: "When is the Falcon deadline?",
  answer: "May 14",
  message_ids: ["m1"],
  inbox_address: "a@b.com",
  query_date: "2001-05-01",
};

const call = (name: string, args: object, outcome: CallOutcome = "ok", result: unknown = "ok"): CallRecord => ({
  turn: 1,
  name,
  arguments: args as Record<string, unknown>,
  outcome,
  result,
});
const found = call("search_inbox", { keywords: ["Falcon"] }, "ok", [{ message_id: "m1" }, { message_id: "m2" }]);
const missed = call("search_inbox", { keywords: ["Eagle"] }, "ok", [{ message_id: "m2" }]);
const read = call("read_email", { message_id: "m1" });
const invalid = call("read_email", { message_id: "m9" }, "tool_error", { error: "no such mail" });
const bad = (outcome: CallOutcome) => call("search_inbox", {}, outcome, { error: "no" });

interface Played {
  readonly calls: readonly CallRecord[];
  readonly end: RolloutEnd;
  readonly answer?: string;
  readonly sources?: readonly string[];
  readonly turns?: number;
  readonly right?: boolean;
}

function reward({ calls, end, answer, sources = [], turns = 4, right = false }: Played) {
  const rollout: FinishedRollout = {
    messages: [],
    calls,
    answer: answer === undefined ? undefined : { answer, reference_message_ids: sources },
    end,
    turns,
    maxTurns: 10,
  };
  return shapedReward(rollout, scenario, (id) => (id === "copy-of-m1" ? "m1" : id), right);
}

const answered = (more: Partial<Played>): Played => ({
  calls: [found, read],
  end: "answered",
  answer: "the 14th",
  ...more,
});

/** ART-E's table, in its order: what happened, and the reward. */
const table: readonly (readonly [string, Played, number])[] = [
  ["an unparseable call ends it", { calls: [bad("malformed")], end: "bad_call" }, -2 + 0.1],
  ["the same after the mail was found and read", { calls: [found, read, bad("malformed")], end: "bad_call" }, -2 + 0.3],
  ["a bad tool name ends it", { calls: [bad("unknown_tool")], end: "bad_call" }, -1.9 + 0.1],
  ["bad arguments end it", { calls: [found, bad("bad_arguments")], end: "bad_call" }, -1.8 + 0.2],
  ["no tool call ends it", { calls: [found, read], end: "no_tool_call" }, -1.8 + 0.3],
  ["a turn was cut at its limit", { calls: [], end: "token_limit" }, -1.8 + 0.1],
  ["a wrong answer, nothing found", answered({ calls: [missed], sources: ["m2"] }), -1 + 0.1],
  ["a wrong answer from the right mail", answered({ sources: ["m1"] }), -1 + 0.4],
  ["a wrong answer after an invalid id", answered({ calls: [found, invalid, read], sources: ["m1"] }), -1 + 0.3],
  ["I don't know, at once", answered({ calls: [], answer: "I don't know" }), 0 + 0.1],
  ["I don't know, after reading the mail", answered({ answer: "not found", sources: ["m1"] }), 0 + 0.4],
  ["out of turns", { calls: [found], end: "turn_limit", turns: 10 }, 0 + 0.2],
  ["out of room", { calls: [found], end: "context_limit" }, 0 + 0.2],
  ["out of time", { calls: [], end: "deadline" }, 0 + 0.1],
  ["right, with its one source, in 4 turns", answered({ right: true, sources: ["m1"] }), 1 + 0.3 + 0.1 + 0.06],
  ["right, in 3 turns", answered({ right: true, sources: ["m1"], turns: 3 }), 1 + 0.3 + 0.1 + 0.07],
  ["right, with a copy of the mail as source", answered({ right: true, sources: ["copy-of-m1"] }), 1.46],
  ["right, among two sources", answered({ right: true, sources: ["m1", "m2"] }), 1 + 0.3 + 0.05 + 0.06],
  ["right, with two wrong sources", answered({ right: true, sources: ["m2", "m3"] }), 1 + 0.05 + 0.06],
  ["right, without a source", answered({ right: true }), 1 + 0.06],
  ["right, at the last turn", answered({ right: true, sources: ["m1"], turns: 10 }), 1 + 0.3 + 0.1],
];

describe("ART-E's shaped reward", () => {
  it.each(table)("%s", (_, played, expected) => {
    expect(reward(played).reward).toBeCloseTo(expected, 9);
  });

  it("under observe takes a little for each bad call that was read, whatever becomes of the rollout", () => {
    const calls = [bad("malformed"), bad("unknown_tool"), found, bad("bad_arguments"), read];
    const clean = answered({ right: true, sources: ["m1"] });
    const { reward: graded, parts } = reward({ ...clean, calls });
    expect(graded).toBeCloseTo(reward(clean).reward - 3 * 0.05, 9);
    expect(parts.bad_calls).toBe(3);
    const lost = { calls: [found], end: "turn_limit" } as const;
    expect(reward({ ...lost, calls: [bad("malformed"), found] }).reward).toBeCloseTo(reward(lost).reward - 0.05, 9);
  });

  it("scores fewer turns higher, and fewer sources", () => {
    const turns = [1, 4, 7, 10].map((turns) => reward(answered({ right: true, sources: ["m1"], turns })).reward);
    expect(turns).toEqual([...turns].sort((a, b) => b - a));
    expect(new Set(turns).size).toBe(4);
    const sources = [["m1"], ["m1", "m2"], ["m1", "m2", "m3"]].map(
      (sources) => reward(answered({ right: true, sources })).reward,
    );
    expect(sources).toEqual([...sources].sort((a, b) => b - a));
  });

  it("calls a rollout a success when its answer was accepted, and when it does not say that there is none", () => {
    expect(reward(answered({ right: true })).success).toBe(true);
    expect(reward(answered({ right: false })).success).toBe(false);
    expect(reward(answered({ right: true, answer: "I don't know" })).success).toBe(false);
    expect(reward({ calls: [], end: "turn_limit", right: true }).success).toBe(false);
  });
});

describe("the question to a judge of correctness", () => {
  const claim = (answer: string | undefined) =>
    emailClaim(
      {
        messages: [],
        calls: [],
        answer: answer === undefined ? undefined : { answer, reference_message_ids: [] },
        end: "answered",
        turns: 1,
        maxTurns: 10,
      },
      scenario,
    );

  it("is asked about answers that are worded otherwise", () => {
    expect(claim("two weeks before the end of May")).toEqual({
      question: scenario.question,
      golden: "May 14",
      given: "two weeks before the end of May",
    });
  });

  it("is there for answers that agree too: training asks where the task's own comparison does not accept them", () => {
    expect(claim("14th of May")?.given).toBe("14th of May");
  });

  it("is none where there is no answer, and where the model gives up", () => {
    for (const answer of [undefined, "not found", ""]) {
      expect(claim(answer)).toBeNull();
    }
  });
});
