/**
 * What is true in one mailbox: for each kind of question one topic, settled for two projects in two ways. So each fact
 * has its rival: the same topic of another project, and (projects have up to two facts) the same project's other topic.
 */
import type { Random } from "../../../util/index.js";
import type { Split } from "../../task.js";
import { everybody, type Person } from "./people.js";
import { type Kind, kinds, months, type NamePools, pools, topics } from "./pools.js";

export interface Fact {
  readonly kind: Kind;
  readonly project: string;
  readonly topic: string;
}

/** Projects and topics fall into five classes each. */
const CLASSES = 5;

/**
 * A project's topic is a matter of the test mailboxes when their classes are the same, else of the training mailboxes:
 * no pair is in both, yet every word is in both. Test mailboxes are drawn like training ones in all other ways.
 */
export function splitOf(projectIndex: number, topicIndex: number): Split {
  return projectIndex % CLASSES === topicIndex % CLASSES ? "test" : "train";
}

/** Ten facts, two of each kind, about six projects. */
export function drawFacts(pool: NamePools, split: Split, random: Random): Fact[] {
  // Two projects of one class have the same topics to choose from: that is what makes them rivals.
  const classes = random.sample(
    Array.from({ length: CLASSES }, (_, index) => index),
    3,
  );
  const rivals = classes.map((classIndex) => ({
    classIndex,
    projects: random.sample(
      pool.projects.filter((_, index) => index % CLASSES === classIndex),
      2,
    ),
  }));
  return random.shuffle(kinds).flatMap((kind, index) => {
    const { classIndex, projects } = rivals[index % rivals.length] as (typeof rivals)[number];
    const topic = random.pick(topics[kind].filter((_, topicIndex) => splitOf(classIndex, topicIndex) === split));
    return projects.map((project) => ({ kind, project, topic }));
  });
}

/** Answers of one mailbox: none is given twice, so that each stands for one fact. */
export class AnswerDraw {
  readonly #given = new Set<string>();

  /** @param people those who may be the answer to "who", each once */
  constructor(
    readonly pool: NamePools,
    readonly people: Person[],
    readonly random: Random,
  ) {}

  /** @param day when the answer is written: dates lie some weeks after it */
  draw(kind: Kind, day: Date): string {
    for (;;) {
      const answer = candidate(kind, this.pool, this.people, day, this.random);
      if (this.#given.has(answer)) continue;
      this.#given.add(answer);
      return answer;
    }
  }
}

function candidate(kind: Kind, pool: NamePools, people: readonly Person[], day: Date, random: Random): string {
  switch (kind) {
    case "when": {
      const then = new Date(day.getTime() + random.integer(10, 120) * 86_400_000);
      return `${months[then.getUTCMonth()]} ${then.getUTCDate()}`;
    }
    case "where":
      return random.pick(pool.places);
    case "who":
      return random.pick(people).name;
    case "much":
      return `$${random.integer(11, 99)}k`;
    case "which":
      return random.pick(pool.companies);
  }
}

let guessable: Person[] | undefined;

/** An answer of the right kind that nobody has given: a guess. Made of training names. */
export function guessAnswer(kind: Kind, random: Random): string {
  guessable ??= everybody("default", "train", "other");
  const day = new Date(Date.UTC(2025, random.integer(0, 11), 1));
  return candidate(kind, pools.default, guessable, day, random);
}
