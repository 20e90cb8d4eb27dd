import { describe, expect, it } from "vitest";
import { emailExpert, type Mistake, mistakes } from "../../../src/task/email/expert.js";
import { emailReward } from "../../../src/task/email/reward.js";
import type { EmailScenario } from "../../../src/task/email/scenario.js";
import { syntheticWorld } from "../../../src/task/email/synthetic/index.js";
import type { ExpertOptions } from "../../../src/task/task.js";
import { Random } from "../../../src/util/random.js";
import { FakeInbox, playScript } from "../../support/fake-inbox.js";

const inboxes = [
  ...syntheticWorld({ seed: 5, mailboxes: 240 }),
  ...syntheticWorld({ seed: 5, mailboxes: 20, names: "reserved" }),
].map(({ mails, scenarios }) => ({ mails, scenarios, inbox: new FakeInbox(mails) }));

function play(inbox: FakeInbox, scenario: EmailScenario, options: ExpertOptions = {}) {
  const rollout = playScript(inbox, scenario, emailExpert(scenario, new Random("expert", scenario.id), options));
  return { ...rollout, ...emailReward(rollout, scenario, (id) => id) };
}
const playAll = (options: ExpertOptions, count = 40) =>
  inboxes
    .slice(0, count)
    .flatMap(({ inbox, scenarios }) => scenarios.map((scenario) => play(inbox, scenario, options)));

describe("the email expert", () => {
  it("solves every question of both splits, and of the reserved names, in three turns and 2,800 characters", () => {
    const rollouts = playAll({}, inboxes.length);
    expect(rollouts).toHaveLength(2_600);
    expect(rollouts.filter(({ reward }) => reward < 0.97 - 1e-9)).toEqual([]);
    expect(new Set(rollouts.map(({ turns }) => turns))).toEqual(new Set([3]));
    const lengths = rollouts.map(({ text }) => text.length).sort((a, b) => a - b);
    const at = (share: number) => lengths[Math.ceil(share * (lengths.length - 1))] as number;
    console.log(`characters of a perfect conversation: p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, most ${at(1)}`);
    expect(at(1)).toBeLessThanOrEqual(2_800);
  });

  it("sees no answer before it reads, whichever words of the question it searches for", () => {
    const seen: string[] = [];
    for (const { inbox, scenarios } of inboxes.slice(200)) {
      for (const scenario of scenarios) {
        const { project, topic } = scenario.facts as { project: string; topic: string };
        const words = new Set(scenario.question.match(/\w+/g));
        const searches = [[project, topic], [project], [topic], ...[...words].map((word) => [project, word])];
        for (const keywords of searches) {
          for (const { snippet } of inbox.search(keywords, scenario)) {
            if (snippet.includes(scenario.answer)) seen.push(`${keywords}: ${snippet}`);
          }
        }
      }
    }
    expect(seen).toEqual([]);
  });

  it("plays the same again from the same seed", () => {
    const options = { mistakes: 0.7 };
    expect(playAll(options, 5).map(({ text }) => text)).toEqual(playAll(options, 5).map(({ text }) => text));
  });
});

describe("a mistake of the email expert", () => {
  const solvedInShare = (name: Mistake) => {
    const rollouts = playAll({ mistakes: { [name]: 1 } });
    return rollouts.filter(({ success }) => success).length / rollouts.length;
  };
  it.each<Mistake>(["bad_keywords", "loose_keywords", "repeats_search", "wrong_mail", "misspelt_id"])(
    "%s is recovered from, and costs turns",
    (name) => {
      const rollouts = playAll({ mistakes: { [name]: 1 } });
      expect(rollouts.every(({ success, parts }) => success && parts.grounded === 1 && parts.cited === 1)).toBe(true);
      if (name !== "loose_keywords") expect(rollouts.some(({ turns }) => turns === 4)).toBe(true);
    },
  );

  it.each<[Mistake, number, number]>([
    ["trusts_wrong_mail", 0, 0.8],
    ["answers_unread", 0, 0.1],
    ["wrong_answer", 0, 0.1],
    ["gives_up_early", 0, 0],
  ])("%s costs the answer", (name, low, high) => {
    expect(solvedInShare(name)).toBeGreaterThanOrEqual(low);
    expect(solvedInShare(name)).toBeLessThanOrEqual(high);
  });

  it.each<Mistake>(["cites_too_much", "cites_nothing"])("%s costs the citation", (name) => {
    const rollouts = playAll({ mistakes: { [name]: 1 } });
    expect(rollouts.every(({ success }) => success)).toBe(true);
    const cited = rollouts.filter(({ parts }) => parts.cited).length / rollouts.length;
    expect(cited).toBeLessThan(name === "cites_nothing" ? 0.001 : 0.7);
  });

  it("bad_keywords shows an empty search, misspelt_id a failed read", () => {
    const empty = playAll({ mistakes: { bad_keywords: 1 } }).filter(
      ({ calls }) => Array.isArray(calls[0]?.result) && calls[0].result.length === 0,
    );
    expect(empty.length / 400).toBeGreaterThan(0.6);
    for (const { calls } of playAll({ mistakes: { misspelt_id: 1 } })) {
      expect(calls.map(({ outcome }) => outcome)).toEqual(["ok", "tool_error", "ok", "ok"]);
    }
  });

  it("is made in the stated share of rollouts", () => {
    const share = (options: ExpertOptions) => {
      const rollouts = playAll(options, 60);
      return rollouts.filter(({ reward }) => reward < 0.97 - 1e-9).length / rollouts.length;
    };
    expect(share({ mistakes: { gives_up_early: 0.3 } })).toBeCloseTo(0.3, 1);
    expect(share({ mistakes: { gives_up_early: 0.3, misspelt_id: 0.5 } })).toBeCloseTo(1 - 0.7 * 0.5, 1);
    const [half, all] = [share({ mistakes: 0.5 }), share({ mistakes: 1 })];
    expect(half).toBeCloseTo(all / 2, 1);
    expect(all).toBeGreaterThan(0.7);
  });

  it("must be one that it knows", () => {
    const script = emailExpert(inboxes[0]?.scenarios[0] as EmailScenario, new Random(1), {
      mistakes: { wrong_mial: 1 },
    });
    expect(() => script.next()).toThrow("no mistake called wrong_mial; did you mean wrong_mail?");
    expect(Object.keys(mistakes)).toHaveLength(11);
  });
});
