import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { Mail } from "../../../../src/email/mail.js";
import type { EmailScenario } from "../../../../src/email/scenario.js";
import { kinds, pools } from "../../../../src/email/synthetic/pools.js";
import { type Mailbox, syntheticWorld } from "../../../../src/email/synthetic/world.js";

const world = [...syntheticWorld({ seed: 1, mailboxes: 300 })];
const reserved = [...syntheticWorld({ seed: 1, mailboxes: 40, names: "reserved" })];
const scenarios = (mailboxes: Mailbox[]) => mailboxes.flatMap((mailbox) => mailbox.scenarios);

const quoted = (text: string) => text.replace(/[$.]/g, "\\$&");
const holds = (text: string, phrase: string) => new RegExp(`(?<![\\w$])${quoted(phrase)}(?!\\w)`, "i").test(text);
const textOf = (mail: Mail) => `${mail.subject}\n${mail.body}`;
const isTo = (mail: Mail, address: string) => [mail.from, ...mail.to, ...mail.cc, ...mail.bcc].includes(address);
const visible = (mails: readonly Mail[], { inbox_address, query_date }: EmailScenario) =>
  mails.filter((mail) => isTo(mail, inbox_address) && (mail.date as string).slice(0, 10) <= query_date);
const facts = (scenario: EmailScenario) => scenario.facts as NonNullable<EmailScenario["facts"]>;

describe("the synthetic world", () => {
  it("is the same, byte for byte, for the same seed", () => {
    const digest = (seed: number, names?: "reserved") =>
      createHash("sha256")
        .update(JSON.stringify([...syntheticWorld({ seed, mailboxes: 25, ...(names ? { names } : {}) })]))
        .digest("hex");
    expect(digest(1)).toBe("723d90b82fa3ad68207642da6aa7542d76b5d8e90b3bf4728f132be0e568acbc");
    expect(digest(1, "reserved")).toBe("b5ea60e0ee97747f92745e473aefd9d7f1f03ea137f57d26d22da35419814218");
    expect(digest(2)).not.toBe(digest(1));
  });

  it("has the same first mailboxes however many follow", () => {
    expect([...syntheticWorld({ seed: 1, mailboxes: 7 })]).toEqual(world.slice(0, 7));
  });

  it("comes one mailbox at a time", () => {
    const endless = syntheticWorld({ seed: 1, mailboxes: Number.MAX_SAFE_INTEGER });
    expect(endless.next().value).toEqual(world[0]);
  });

  it("asks ten questions of each mailbox, two of each kind, a fifth of them for testing", () => {
    for (const mailbox of [...world, ...reserved]) {
      const count = (kind: string) => mailbox.scenarios.filter((scenario) => scenario.kind === kind).length;
      expect(kinds.map(count)).toEqual([2, 2, 2, 2, 2]);
    }
    expect(scenarios(world).filter(({ split }) => split === "test")).toHaveLength(600);
    expect(scenarios(reserved).every(({ split }) => split === "test")).toBe(true);
  });

  it("uses no message id, owner or scenario id twice, and no mail could be taken for another's duplicate", () => {
    for (const mailboxes of [world, reserved, [...syntheticWorld({ seed: 3, mailboxes: 1_400 })]]) {
      const mails = mailboxes.flatMap((mailbox) => mailbox.mails);
      const unique = (values: string[]) => expect(new Set(values).size).toBe(values.length);
      unique(mails.map(({ messageId }) => messageId));
      unique(mails.map(({ from, subject, body }) => JSON.stringify([from, subject, body])));
      unique(mailboxes.map((mailbox) => (mailbox.scenarios[0] as EmailScenario).inbox_address));
      unique(scenarios(mailboxes).map(({ id }) => id));
    }
  });

  it("tells the mails of a mailbox apart by the first word of their ids", () => {
    for (const { mails } of world) {
      expect(new Set(mails.map(({ messageId }) => messageId.split("-")[0])).size).toBe(mails.length);
      for (const { messageId } of mails) expect(messageId).toMatch(/^[a-z]+-[a-z]+$/);
    }
  });

  it("writes mails of 120 to 350 characters in one paragraph", () => {
    for (const { mails } of [...world, ...reserved]) {
      for (const { body } of mails) {
        expect(body).toMatch(/^[^\n{}]{120,350}$/);
      }
      expect(mails.length).toBeGreaterThanOrEqual(22);
      expect(mails.length).toBeLessThanOrEqual(30);
    }
  });
});

describe("a question of the synthetic world", () => {
  it("is answered by exactly one mail that its owner may read", () => {
    for (const { mails, scenarios } of [...world, ...reserved]) {
      for (const scenario of scenarios) {
        const { project, topic } = facts(scenario);
        expect(holds(scenario.question, project) && holds(scenario.question, topic)).toBe(true);
        const readable = visible(mails, scenario);
        const withAnswer = readable.filter((mail) => holds(mail.body, scenario.answer));
        const about = withAnswer.filter((mail) => holds(textOf(mail), project) || holds(textOf(mail), topic));
        expect(about.map(({ messageId }) => messageId)).toEqual(scenario.message_ids);
        expect(holds(about[0]?.body ?? "", project) && holds(about[0]?.body ?? "", topic)).toBe(true);
        // People who are an answer may be talked about elsewhere; no other answer comes up a second time at all.
        if (scenario.kind !== "who") expect(withAnswer).toHaveLength(1);
      }
    }
  });

  it("is answered at least 15 words away from its keywords, out of a search's snippet", () => {
    for (const { mails, scenarios } of [...world, ...reserved]) {
      for (const { facts, answer, message_ids } of scenarios) {
        const body = mails.find(({ messageId }) => messageId === message_ids[0])?.body as string;
        const last = Math.max(body.lastIndexOf(facts?.project as string), body.lastIndexOf(facts?.topic as string));
        const between = body.slice(last, body.indexOf(answer)).match(/[\p{L}\p{N}]+/gu) ?? [];
        expect(between.length).toBeGreaterThan(15);
      }
    }
  });

  it("has rivals: the same topic of another project, and often the same project's other topic", () => {
    let otherTopic = 0;
    for (const { scenarios } of world) {
      for (const { facts: about } of scenarios) {
        const rivals = scenarios.filter(({ facts }) => facts?.topic === about?.topic && facts !== about);
        expect(rivals).toHaveLength(1);
        if (scenarios.some(({ facts }) => facts?.project === about?.project && facts?.topic !== about?.topic)) {
          otherTopic++;
        }
      }
    }
    expect(otherTopic / 3_000).toBeCloseTo(0.8, 1);
  });

  it("has mail around it that misleads whoever is shown what the owner cannot see", () => {
    let future = 0;
    let foreign = 0;
    for (const { mails, scenarios } of world) {
      for (const scenario of scenarios) {
        const { project, topic } = facts(scenario);
        const readable = new Set(visible(mails, scenario));
        for (const mail of mails.filter((mail) => !readable.has(mail))) {
          if (!holds(mail.body, project) || !holds(mail.body, topic)) continue;
          expect(holds(mail.body, scenario.answer)).toBe(false);
          if (isTo(mail, scenario.inbox_address)) future++;
          else foreign++;
        }
      }
    }
    expect(future).toBeGreaterThan(600);
    expect(foreign).toBeGreaterThan(300);
  });

  it("is seen by nobody but the owner: no owner occurs in another mailbox", () => {
    const owners = new Set(world.map((mailbox) => (mailbox.scenarios[0] as EmailScenario).inbox_address));
    for (const { mails, scenarios } of world) {
      const own = scenarios[0]?.inbox_address;
      for (const { from, to, cc } of mails) {
        for (const address of [from, ...to, ...cc]) expect(address === own || !owners.has(address)).toBe(true);
      }
    }
  });
});

describe("training and test mailboxes", () => {
  const bySplit = (split: string) => world.filter(({ scenarios }) => scenarios[0]?.split === split);
  const shared = (valuesOf: (mailbox: Mailbox) => string[]) => {
    const train = new Set(bySplit("train").flatMap(valuesOf));
    return bySplit("test")
      .flatMap(valuesOf)
      .filter((value) => train.has(value));
  };

  it("share no people", () => {
    expect(shared(({ mails }) => mails.flatMap(({ from, to, cc }) => [from, ...to, ...cc]))).toEqual([]);
    const names = ({ mails }: Mailbox) =>
      mails.flatMap(({ body }) => body.match(/\b[A-Z][a-z]+ [A-Z][a-z]+\b/g) ?? []).filter((name) => isPerson(name));
    expect(shared(names)).toEqual([]);
    expect(bySplit("test").flatMap(names).length).toBeGreaterThan(100);
  });

  it("share no facts: no topic of a project is in both", () => {
    expect(shared(({ scenarios }) => scenarios.map(({ facts }) => `${facts?.project} ${facts?.topic}`))).toEqual([]);
  });

  it("use the same words otherwise", () => {
    const projects = (split: string) => new Set(scenarios(bySplit(split)).map((scenario) => facts(scenario).project));
    expect([...projects("test")].filter((project) => projects("train").has(project)).length).toBeGreaterThan(90);
  });

  it("know none of the reserved names", () => {
    const written = (mailboxes: Mailbox[]) =>
      new Set(
        mailboxes
          .flatMap(({ mails }) => mails.map((mail) => `${textOf(mail)} ${mail.from} ${mail.to} ${mail.cc}`))
          .flatMap((text) => text.toLowerCase().match(/[a-z]+/g) ?? []),
      );
    const [inDefault, inReserved] = [written(world), written(reserved)];
    const names = (set: "default" | "reserved") =>
      Object.values(pools[set])
        .flat()
        .map((name) => name.toLowerCase());
    expect(names("reserved").filter((name) => inDefault.has(name))).toEqual([]);
    expect(names("default").filter((name) => inReserved.has(name))).toEqual([]);
    expect(names("reserved").filter((name) => !inReserved.has(name))).toEqual([]);
  });
});

function isPerson(name: string): boolean {
  const [first = "", last = ""] = name.split(" ");
  return pools.default.first.includes(first) && pools.default.last.includes(last);
}
