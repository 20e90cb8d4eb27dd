/** Where in the messages of a rollout its calls are. */
import type { PlayedNode } from "../../core/rollout/trajectory.js";
import type { CallRecord, ChatMessage } from "../../core/task/task.js";

interface Sequence {
  readonly messages: readonly ChatMessage[];
  readonly calls?: readonly CallRecord[];
}

/** A trajectory, or what a page has of it. */
interface WithCalls extends Sequence {
  readonly turns: number;
  readonly branches?: readonly Sequence[];
  readonly tree?: readonly PlayedNode[];
}

/** The calls of a message, in the order in which it has them; malformed ones are not among its `tool_calls`. */
export type CallsOfMessage = ReadonlyMap<number, readonly CallRecord[]>;

/** Indices of the messages of a sequence's own turns, by the number of the turn in it. */
function messagesOfTurns({ messages, turns, tree = [] }: WithCalls, sequence: number): ReadonlyMap<number, number> {
  if (tree.length > 0) {
    const depth = (index: number | null): number => (index === null ? 0 : 1 + depth(tree[index]?.parent ?? null));
    return new Map(
      tree.flatMap((node, index) => (node.sequence === sequence ? [[depth(index), node.message] as const] : [])),
    );
  }
  // The prompt may have assistant messages, too.
  const played = messages.flatMap(({ role }, index) => (role === "assistant" ? [index] : [])).slice(-turns);
  return new Map(played.map((index, at) => [at + 1, index]));
}

/** By sequence. */
export function callsByMessage(played: WithCalls): CallsOfMessage[] {
  return [played, ...(played.branches ?? [])].map(({ calls = [] }, sequence) => {
    const messages = messagesOfTurns(played, sequence);
    const found = new Map<number, CallRecord[]>();
    for (const call of calls) {
      const message = messages.get(call.turn);
      if (message !== undefined) found.set(message, [...(found.get(message) ?? []), call]);
    }
    return found;
  });
}

/** Why a call did not run; undefined where it did. */
export function failureOf({ outcome, result }: CallRecord): string | undefined {
  if (outcome === "ok") return undefined;
  const { error } = Object(result) as { error?: unknown };
  return typeof error === "string" ? error : "";
}
