/**
 * Generates one synthetic mailbox: about 27 mails of one owner and their colleagues, and ten questions about them.
 * Besides the evidence mails there are distractors: the question asked before, still open, thanks afterwards, the rival
 * project's mail, mail about the same people; and mail invisible to the owner, with other answers: among colleagues,
 * and of later days.
 */

import type { Split } from "../../core/task/task.js";
import type { Random } from "../../core/util/random.js";
import type { Mail } from "../mail.js";
import type { EmailScenario } from "../scenario.js";
import { answerDraw, drawFacts, type Fact } from "./facts.js";
import { acquaintances, type Person } from "./people.js";
import * as phrases from "./phrases.js";
import type { NamePools } from "./pools.js";

const DAY = 86_400_000;

/** Events around a fact besides its decision; dealt to the ten facts like a deck of cards. */
const stories = [
  { asked: true, undecided: false, thanked: true },
  { asked: true, undecided: false, thanked: true },
  { asked: true, undecided: false, thanked: false },
  { asked: false, undecided: true, thanked: false },
  { asked: false, undecided: true, thanked: false },
  { asked: false, undecided: true, thanked: true },
  { asked: false, undecided: false, thanked: true },
  { asked: false, undecided: false, thanked: false },
  { asked: false, undecided: false, thanked: false },
  { asked: false, undecided: false, thanked: false },
] as const;

export interface MailboxPlan {
  readonly split: Split;
  readonly owner: Person;
  /** Pool of the colleagues and of the people in the mails. */
  readonly others: readonly Person[];
  readonly pool: NamePools;
  /** Message ids, more than needed. */
  readonly ids: readonly string[];
  /** Prefix of scenario ids and file names. */
  readonly name: string;
}

interface Draft extends Pick<Mail, "subject" | "body"> {
  readonly sender: Person;
  readonly receiver: Person;
  readonly copy?: Person | undefined;
  readonly at: Date;
}

/** A draft whose text is to be written. */
interface Decided extends Omit<Draft, "body"> {
  readonly mood: keyof typeof phrases.leads;
  readonly fact: Fact;
  readonly answer?: string;
}

/** Writes the mails (in order of time) and the questions of one mailbox. */
export function writeMailbox(plan: MailboxPlan, random: Random): { mails: Mail[]; scenarios: EmailScenario[] } {
  const drafts: Draft[] = [];
  const people = acquaintances(plan.others, plan.owner, 16, random);
  const colleagues = people.slice(0, 8);
  const drawAnswer = answerDraw(plan.pool, people.slice(8), random);
  const today = new Date(Date.UTC(2024, 5, 1) + random.integer(0, 500) * DAY);

  /** A minute of the working day, a number of days from today. */
  const time = (days: number) => new Date(today.getTime() + days * DAY + random.integer(8 * 60, 19 * 60 - 1) * 60_000);

  /** A number of days before or after a mail. */
  function near(at: Date, low: number, high: number): Date {
    const days = Math.floor((at.getTime() - today.getTime()) / DAY);
    return time(days + random.integer(low, high));
  }

  function letter(sender: Person, receiver: Person, sentences: readonly string[]): string {
    const greeting = fill(random.pick(phrases.greetings), { name: receiver.first });
    const closing = fill(random.pick(phrases.closings), { name: sender.first });
    return [greeting, ...sentences, closing].join(" ");
  }

  function add({ mood, fact, answer, ...draft }: Decided): Draft {
    const sentences = [
      fill(random.pick(phrases.leads[mood]), { fact }),
      random.pick(phrases.middles[mood]),
      mood === "decided" || mood === "changed"
        ? fill(random.pick(phrases.answers[fact.kind]), { answer: answer as string })
        : random.pick(phrases.noAnswers[mood]),
    ];
    if (random.chance(0.4)) sentences.push(random.pick(phrases.tails));
    const written = { ...draft, body: letter(draft.sender, draft.receiver, sentences) };
    drafts.push(written);
    return written;
  }

  /** The mail that decides a fact, and its story. Sometimes the owner wrote it. */
  function settle(fact: Fact, story: (typeof stories)[number]) {
    const colleague = random.pick(colleagues);
    const byOwner = !story.asked && random.chance(0.15);
    const [sender, receiver] = byOwner ? [plan.owner, colleague] : [colleague, plan.owner];
    const at = time(-random.integer(5, 150));
    const answer = drawAnswer(fact.kind, at);

    let subject = fill(random.pick(phrases.subjects[story.asked ? "asking" : "decided"]), { fact });
    if (story.asked) {
      add({ mood: "asking", fact, subject, sender: receiver, receiver: sender, at: near(at, -6, -1) });
      subject = `Re: ${subject}`;
    }
    if (story.undecided) {
      const about = fill(random.pick(phrases.subjects.undecided), { fact });
      const who = random.pick(colleagues);
      const before = near(at, -30, -2);
      add({ mood: "undecided", fact, subject: about, sender: who, receiver: plan.owner, at: before });
    }
    const copy = random.chance(0.25) ? random.pick(colleagues.filter((person) => person !== colleague)) : undefined;
    const draft = add({ mood: "decided", fact, subject, sender, receiver, at, answer, copy });
    if (story.thanked) {
      const reply = subject.startsWith("Re: ") ? subject : `Re: ${subject}`;
      add({ mood: "thanking", fact, subject: reply, sender: receiver, receiver: sender, at: near(at, 1, 3) });
    }
    return { fact, answer, draft };
  }

  /** Mail about one project that mentions the person who is the answer for another. */
  function chat(settled: readonly { fact: Fact; answer: string }[]): void {
    const who = random.pick(settled.filter(({ fact }) => fact.kind === "who"));
    const { fact } = random.pick(settled.filter((other) => other.fact.project !== who.fact.project));
    const sender = random.pick(colleagues);
    const text = fill(random.pick(phrases.chats), { fact, name: who.answer });
    drafts.push({
      sender,
      receiver: plan.owner,
      subject: fill(random.pick(phrases.subjects.chat), { fact }),
      body: letter(sender, plan.owner, [text]),
      at: time(-random.integer(1, 150)),
    });
  }

  /** Later mail: the answer changes after the date of the question. */
  function change(fact: Fact, { sender, receiver }: Draft): void {
    const at = time(random.integer(1, 40));
    const subject = fill(random.pick(phrases.subjects.changed), { fact });
    add({ mood: "changed", fact, subject, sender, receiver, at, answer: drawAnswer(fact.kind, at) });
  }

  /** Mail among colleagues that the owner never received. */
  function elsewhere(fact: Fact): void {
    const at = time(-random.integer(2, 150));
    const [sender, receiver] = random.sample(colleagues, 2) as [Person, Person];
    const subject = fill(random.pick(phrases.subjects.decided), { fact });
    add({ mood: "decided", fact, subject, sender, receiver, at, answer: drawAnswer(fact.kind, at) });
  }

  function mailOf({ sender, receiver, copy, subject, body, at }: Draft, messageId: string): Mail {
    return {
      messageId,
      subject,
      from: sender.address,
      to: [receiver.address],
      cc: copy ? [copy.address] : [],
      bcc: [],
      date: at.toISOString().slice(0, 19).replace("T", " "),
      body,
      fileName: `${plan.name}/${messageId}`,
    };
  }

  const facts = drawFacts(plan.pool, plan.split, random);
  const deck = random.shuffle(stories);
  const settled = facts.map((fact, index) => settle(fact, deck[index] as (typeof stories)[number]));
  for (let i = random.integer(2, 4); i > 0; i--) chat(settled);
  for (const { fact, draft } of random.sample(settled, random.integer(2, 3))) change(fact, draft);
  for (const { fact } of random.sample(settled, random.integer(1, 3))) elsewhere(fact);

  const ids = new Map(drafts.map((draft, index) => [draft, plan.ids[index] as string]));
  const mails = drafts
    .map((draft) => mailOf(draft, ids.get(draft) as string))
    .sort((a, b) => (a.date as string).localeCompare(b.date as string) || a.messageId.localeCompare(b.messageId));
  const scenarios = random.shuffle(settled).map(({ fact, answer, draft }, index) => ({
    id: `${plan.name}-q${index}`,
    split: plan.split,
    question: fill(random.pick(phrases.questions[fact.kind]), { fact }),
    answer,
    message_ids: [ids.get(draft) as string],
    inbox_address: plan.owner.address,
    query_date: today.toISOString().slice(0, 10),
    kind: fact.kind,
    facts: { project: fact.project, topic: fact.topic },
  }));
  return { mails, scenarios };
}

function fill(template: string, values: { fact?: Fact; answer?: string; name?: string }): string {
  const { fact, answer, name } = values;
  return template.replace(/\{([ptan])\}/g, (_, key: "p" | "t" | "a" | "n") => {
    const value = { p: fact?.project, t: fact?.topic, a: answer, n: name }[key];
    if (value === undefined) throw new Error(`the phrase "${template}" has no value for {${key}}`);
    return value;
  });
}
