/**
 * The facts of one mailbox: for each kind of question a topic, decided differently for two projects. So each fact has
 * rivals: the same topic of another project, and (projects have up to two facts) the same project's other topic.
 */

import type { Split } from "../../core/task/task.js";
import type { Random } from "../../core/util/random.js";
import { everybody, type Person } from "./people.js";
import { type Kind, kinds, months, type NamePools, pools, topics } from "./pools.js";

export interface Fact {
  readonly kind: Kind;
  readonly project: string;
  readonly topic: string;
}

/** Number of classes of projects and of topics. */
const CLASSES = 5;

/**
 * A project's topic is a matter of the test mailboxes when their classes are the same, else of the training mailboxes:
 * no pair is in both, yet every word is in both. Test mailboxes are drawn like training ones in all other ways.
 */
function splitOf(projectIndex: number, topicIndex: number): Split {
  return projectIndex % CLASSES === topicIndex % CLASSES ? "test" : "train";
}

/** Ten facts, two of each kind, about six projects. */
export function drawFacts(pool: NamePools, split: Split, random: Random): Fact[] {
  // Two projects of one class have the same topics to choose from, which makes them rivals.
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

/**
 * Draws answers of one mailbox; none is used twice, so that each belongs to one fact.
 *
 * @param people possible answers to "who"
 * @returns `day` is that of the answer: dates are some weeks later
 */
export function answerDraw(pool: NamePools, people: readonly Person[], random: Random) {
  const given = new Set<string>();
  return (kind: Kind, day: Date): string => {
    for (;;) {
      const answer = candidate(kind, pool, people, day, random);
      if (given.has(answer)) continue;
      given.add(answer);
      return answer;
    }
  };
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

/** A wrong answer of the right kind, as a guess. Made of training names. */
export function guessAnswer(kind: Kind, random: Random): string {
  guessable ??= everybody("default", "train", "other");
  const day = new Date(Date.UTC(2025, random.integer(0, 11), 1));
  return candidate(kind, pools.default, guessable, day, random);
}
