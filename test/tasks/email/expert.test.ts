import { afterAll, describe, expect, it } from "vitest";
import type { RolloutOutcome } from "../../../src/core/rollout/rollout.js";
import type { ExpertOptions } from "../../../src/core/task/task.js";
import { Random } from "../../../src/core/util/random.js";
import { emailExpert, type Mistake, mistakes } from "../../../src/email/expert.js";
import type { EmailScenario } from "../../../src/email/scenario.js";
import { buildSyntheticInbox, conversationLength } from "../../support/synthetic-inbox.js";

/** Of ten questions each. More among the slower tests. */
const mailboxes = process.env.TEST_FULL ? 240 : 60;
const MANY = process.env.TEST_FULL ? 400 : 200;
const world = buildSyntheticInbox({ seed: 5, mailboxes });
const reserved = buildSyntheticInbox({ seed: 5, mailboxes: 20, names: "reserved" });
afterAll(() => {
  world.close();
  reserved.close();
});

/** Plays the first scenarios of the world, in order. */
async function playAll(options: ExpertOptions, count = MANY, inbox = world) {
  const rollouts = [];
  for (const scenario of inbox.scenarios.slice(0, count)) rollouts.push(await inbox.play(scenario, options));
  return rollouts;
}

describe("the email expert", () => {
  it("solves every question of both splits, and of the reserved names, in three turns and 2,800 characters", async () => {
    const rollouts = [...(await playAll({}, 10 * mailboxes)), ...(await playAll({}, 200, reserved))];
    expect(rollouts).toHaveLength(10 * mailboxes + 200);
    expect(new Set(world.scenarios.map(({ split }) => split))).toEqual(new Set(["train", "test"]));
    expect(rollouts.filter(({ reward }) => !reward.success || reward.reward < 0.97 - 1e-9)).toEqual([]);
    expect(new Set(rollouts.map(({ turns }) => turns))).toEqual(new Set([3]));
    const lengths = rollouts.map(conversationLength).sort((a, b) => a - b);
    const at = (share: number) => lengths[Math.ceil(share * (lengths.length - 1))] as number;
    console.log(`characters of a perfect conversation: p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, most ${at(1)}`);
    expect(at(1)).toBeLessThanOrEqual(2_800);
  });

  it.each(["date", "bm25"] as const)(
    "sees no answer before it reads, whichever words of the question it searches for, ranked by %s",
    (rank) => {
      const seen: string[] = [];
      let hits = 0;
      for (const { mail, scenarios } of [reserved, { ...world, scenarios: world.scenarios.slice(0, 400) }]) {
        for (const { question, answer, facts, message_ids, inbox_address: inbox, query_date: today } of scenarios) {
          const { project, topic } = facts as { project: string; topic: string };
          const words = [...new Set(question.match(/\w+/g))];
          for (const keywords of [[project, topic], [project], [topic], ...words.map((word) => [project, word])]) {
            for (const { messageId, snippet } of mail.search({ inbox, today }, { keywords, rank })) {
              hits++;
              // Elsewhere the same name may stand by chance, as that of a colleague; it answers nothing there.
              if (message_ids.includes(messageId) && snippet.includes(answer)) seen.push(`${keywords}: ${snippet}`);
            }
          }
        }
      }
      expect(hits).toBeGreaterThan(5_000);
      expect(seen).toEqual([]);
    },
  );

  it("plays the same again from the same seed", async () => {
    const messages = async () => (await playAll({ mistakes: 0.7 }, 50)).map(({ messages }) => messages);
    expect(await messages()).toEqual(await messages());
  });

  it("plays questions over real mail too, for which it has but the question's words", async () => {
    // A scenario without its facts is what a question over imported mail is.
    const rollouts = [];
    for (const { facts: _, ...scenario } of world.scenarios.slice(0, 100)) rollouts.push(await world.play(scenario));
    expect(rollouts.filter(({ reward }) => reward.parts.grounded === 1).length).toBeGreaterThan(90);
    expect(rollouts.every(({ end }) => end === "answered")).toBe(true);
  });
});

describe("a mistake of the email expert", () => {
  const solvedInShare = (rollouts: RolloutOutcome[]) =>
    rollouts.filter(({ reward }) => reward.success).length / rollouts.length;

  it.each<Mistake>(["bad_keywords", "loose_keywords", "repeats_search", "wrong_mail", "misspelt_id"])(
    "%s is recovered from, and costs turns",
    async (name) => {
      const rollouts = await playAll({ mistakes: { [name]: 1 } });
      const parts = { right: 1, grounded: 1, found: 1, read: 1, cited: 1 };
      for (const { reward } of rollouts) expect(reward).toMatchObject({ success: true, parts });
      if (name !== "loose_keywords") expect(rollouts.some(({ turns }) => turns === 4)).toBe(true);
    },
  );

  it.each<[Mistake, number, number]>([
    ["trusts_wrong_mail", 0, 0.8],
    ["answers_unread", 0, 0.1],
    ["wrong_answer", 0, 0.1],
    ["gives_up_early", 0, 0],
  ])("%s costs the answer", async (name, low, high) => {
    const share = solvedInShare(await playAll({ mistakes: { [name]: 1 } }));
    expect(share).toBeGreaterThanOrEqual(low);
    expect(share).toBeLessThanOrEqual(high);
  });

  it.each<Mistake>(["cites_too_much", "cites_nothing"])("%s costs the citation", async (name) => {
    const rollouts = await playAll({ mistakes: { [name]: 1 } });
    expect(solvedInShare(rollouts)).toBe(1);
    const cited = rollouts.filter(({ reward }) => reward.parts.cited).length / rollouts.length;
    expect(cited).toBeLessThan(name === "cites_nothing" ? 0.001 : 0.7);
  });

  it("bad_keywords shows an empty search, misspelt_id a failed read", async () => {
    const empty = (await playAll({ mistakes: { bad_keywords: 1 } })).filter(
      ({ calls }) => Array.isArray(calls[0]?.result) && calls[0].result.length === 0,
    );
    expect(empty.length / MANY).toBeGreaterThan(0.6);
    for (const { calls } of await playAll({ mistakes: { misspelt_id: 1 } })) {
      expect(calls.map(({ outcome }) => outcome)).toEqual(["ok", "tool_error", "ok", "ok"]);
    }
  });

  it("is made in the stated share of rollouts", async () => {
    const share = async (options: ExpertOptions) => {
      const rollouts = await playAll(options, 600);
      return rollouts.filter(({ reward }) => reward.reward < 0.97 - 1e-9).length / rollouts.length;
    };
    expect(await share({ mistakes: { gives_up_early: 0.3 } })).toBeCloseTo(0.3, 1);
    expect(await share({ mistakes: { gives_up_early: 0.3, misspelt_id: 0.5 } })).toBeCloseTo(1 - 0.7 * 0.5, 1);
    const [half, all] = [await share({ mistakes: 0.5 }), await share({ mistakes: 1 })];
    expect(half).toBeCloseTo(all / 2, 1);
    expect(all).toBeGreaterThan(0.7);
  });

  it("must be one that it knows", () => {
    const scenario = world.scenarios[0] as EmailScenario;
    const script = emailExpert(scenario, new Random(1), { mistakes: { wrong_mial: 1 } });
    expect(() => script.next()).toThrow("no mistake called wrong_mial; did you mean wrong_mail?");
    expect(Object.keys(mistakes)).toHaveLength(11);
  });
});
