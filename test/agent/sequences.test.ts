/** The tree of an agent's turns: what goes on from what, and which sequence trains each. */
import { expect, test } from "vitest";
import type { PlayedTurn } from "../../src/agent/rollout-model.js";
import { sequencesOf } from "../../src/agent/sequences.js";

type Messages = PlayedTurn["asked"]["next"];

const user = (content: string) => [{ role: "user" as const, content }];

let played: PlayedTurn[] = [];

/** A turn of two given tokens and three sampled ones. */
function turn(next: Messages, parent: PlayedTurn | null, more: { key?: string; rewritten?: number } = {}): PlayedTurn {
  const number = played.length;
  const own = { ids: Int32Array.from([1, 2, 3]), sampled: Uint8Array.from([1, 1, 1]), logprobs: new Float32Array(3) };
  const made = {
    number,
    point: { parent: parent?.point ?? null, ids: Int32Array.from([8, 9, 1, 2, 3]), closed: true },
    asked: {
      next,
      append: [8, 9],
      key: more.key ?? `key ${number}`,
      point: parent?.point ?? null,
      rewritten: more.rewritten ?? 0,
    },
    answer: { read: { content: `said ${number}`, calls: [] }, calls: [], segment: own },
  } as unknown as PlayedTurn;
  played = [...played, made];
  return made;
}

test("names sub-agents, attempts and rewritten histories, and trains each turn in one sequence", () => {
  const first = turn(user("question"), null);
  const second = turn(user("result"), first, { key: "asked twice" });
  turn(user("part"), null);
  const again = turn(user("result"), first, { key: "asked twice" });
  turn(user("more"), again);
  turn([...user("question"), { role: "assistant", content: "a summary" }, ...user("go on")], null, { rewritten: 2 });
  const { first: main, branches, tree } = sequencesOf(played, 7);
  expect(tree).toEqual([
    { parent: null, sequence: 0, message: 1, given: 2, sampled: 3 },
    { parent: 0, sequence: 1, message: 3, given: 2, sampled: 3 },
    { parent: null, sequence: 2, message: 1, given: 2, sampled: 3 },
    { parent: 0, sequence: 0, message: 3, given: 2, sampled: 3, again: 1 },
    { parent: 3, sequence: 0, message: 5, given: 2, sampled: 3 },
    { parent: null, sequence: 3, message: 3, given: 2, sampled: 3, rewritten: 2 },
  ]);
  // Each names a message of its own, and the tokens that its sequence trains.
  const sequences = [main, ...branches];
  for (const [index, { sequence, message }] of tree.entries()) {
    expect(sequences[sequence]?.messages[message]).toEqual({ role: "assistant", content: `said ${index}` });
  }
  for (const [index, sequence] of sequences.entries()) {
    const trained = sequence?.tokens.sampled.filter((one) => one === 1).length;
    const named = tree.filter((node) => node.sequence === index).reduce((sum, { sampled }) => sum + sampled, 0);
    expect(trained).toBe(named);
  }
  expect(second.point.parent).toBe(first.point);
});
