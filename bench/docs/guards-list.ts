/** The list of guards in docs/trust.md. */
import type { Guard, Moments } from "../../src/core/train/guard.js";
import { wrapped } from "../../src/core/util/text.js";
import { type GuardSources, guardsOf, learnerGuards } from "../../src/guards/guard-list.js";

const MOMENTS: Readonly<Record<keyof Moments, string>> = {
  afterPlay: "after a group is played",
  afterCredit: "after its rewards are credited",
  beforeUpdate: "before the update",
  afterBatch: "after the batch is written",
  beforeAsking: "before the learner is asked",
  afterUpdate: "after the update",
  afterCommit: "after the step is committed",
  afterWaking: "after the engine has woken",
  afterSettling: "after the step",
};

/** By the moment at which they look. */
export function guardsList(): string {
  // For their names alone: what they look at they need when they are asked.
  const named = guardsOf({} as GuardSources);
  const all: readonly (readonly [moment: string, guard: Pick<Guard, "name" | "sees">])[] = [
    ...(Object.keys(MOMENTS) as (keyof Moments)[]).flatMap((moment) =>
      named.filter((guard) => moment in guard).map((guard) => [MOMENTS[moment], guard] as const),
    ),
    ...learnerGuards.map((guard) => ["in the learner", guard] as const),
  ];
  const item = ({ name, sees }: Pick<Guard, "name" | "sees">) =>
    wrapped(`- **${name}**: ${sees}`, 128).map((line, index) => (index === 0 ? line : `  ${line}`));
  return [...new Set(all.map(([moment]) => moment))]
    .map((moment) => {
      const title = `${moment.charAt(0).toUpperCase()}${moment.slice(1)}:`;
      return [title, "", ...all.filter(([when]) => when === moment).flatMap(([, guard]) => item(guard)), ""].join("\n");
    })
    .join("\n");
}
