/**
 * The sequences of a rollout that a task's own code played. Turns form trees: conversations that begin anew are roots, and
 * one that goes on in two ways branches. Every leaf is a sequence. A sampled token that several of them share is sampled in
 * the first and given in the others, so that each is trained once.
 */
import { parsed } from "../chat/formats/format.js";
import { afterTurn } from "../core/engine/evaluated.js";
import type { DrawStatistics, Evaluated } from "../core/engine/sequence.js";
import type { Branch, PlayedNode } from "../core/rollout/trajectory.js";
import { type TokenRecord, Transcript } from "../core/rollout/transcript.js";
import type { CallRecord, ChatMessage } from "../core/task/task.js";
import type { Point } from "../serve/recorder.js";
import { refusalByRequest } from "./request-refusals.js";
import type { PlayedTurn } from "./rollout-model.js";

export interface PlayedSequences {
  /** The first conversation, as it went on last; undefined where the model was never asked. */
  readonly first: Required<Branch> | undefined;
  readonly branches: Branch[];
  /** The last turn of the first. */
  readonly leaf: PlayedTurn | undefined;
  /** Every turn, in the order in which they began; empty where all are in one sequence. */
  readonly tree: PlayedNode[];
}

function chainTo(leaf: PlayedTurn, byPoint: ReadonlyMap<Point, PlayedTurn>): PlayedTurn[] {
  const chain: PlayedTurn[] = [];
  for (let turn: PlayedTurn | undefined = leaf; turn; ) {
    chain.push(turn);
    turn = turn.point.parent ? byPoint.get(turn.point.parent) : undefined;
  }
  return chain.reverse();
}

function messagesOf(chain: readonly PlayedTurn[]): ChatMessage[] {
  return chain.flatMap(({ asked, answer: { read, calls } }): ChatMessage[] => [
    ...asked.next,
    calls.length > 0
      ? { role: "assistant", content: read.content, tool_calls: [...calls] }
      : { role: "assistant", content: read.content },
  ]);
}

const NO_DRAWS: DrawStatistics = { tokens: 0, deviation: 0, variance: 0 };

function tokensOf(chain: readonly PlayedTurn[], isOwn: (turn: PlayedTurn) => boolean, closing: number): TokenRecord {
  const transcript = new Transcript();
  let evaluated: Evaluated | undefined;
  for (const turn of chain) {
    const { segment } = turn.answer;
    const { evaluated: said } = segment;
    const own = isOwn(turn);
    transcript.given(turn.asked.append);
    if (own) transcript.add(segment);
    else transcript.given(segment.ids);
    // Draws count where they are trained.
    evaluated = own ? afterTurn(evaluated, said) : said && { ...said, drawn: [], draws: evaluated?.draws ?? NO_DRAWS };
  }
  // After a truncated turn the template's closing token follows, not sampled.
  if (!chain.at(-1)?.point.closed) transcript.given([closing]);
  const { evaluated: _, ...record } = transcript.record();
  return { ...record, ...(evaluated ? { evaluated } : {}) };
}

function resultOf(content: string): unknown {
  const value = parsed(content);
  return value === undefined ? content : value;
}

/**
 * The calls of a sequence's own turns, judged by the tools of the request that each answers, with the results that the code sent
 * back; null where it sent none.
 */
function callsOf(chain: readonly PlayedTurn[], isOwn: (turn: PlayedTurn) => boolean): CallRecord[] {
  return chain.flatMap((played, index) => {
    if (!isOwn(played)) return [];
    const { asked, answer } = played;
    const answers = chain[index + 1]?.asked.next ?? [];
    return answer.read.calls.map((written): CallRecord => {
      const turn = index + 1;
      if (written.kind === "malformed")
        return { turn, name: "", arguments: {}, outcome: "malformed", result: { error: written.reason } };
      const { name, arguments: args } = written.call;
      const refusal = refusalByRequest(written.call, asked.tools);
      if (refusal) return { turn, name, arguments: args, outcome: refusal.outcome, result: { error: refusal.error } };
      const call = answer.calls.find((one) => one.name === name && one.arguments === args);
      const found = answers.find((message) => message.role === "tool" && message.id === call?.id);
      return { turn, name, arguments: args, outcome: "ok", result: found ? resultOf(found.content) : null };
    });
  });
}

/** The turns as they go on from each other; each is in the first sequence that has it. */
function treeOf(turns: readonly PlayedTurn[], chains: readonly (readonly PlayedTurn[])[]): PlayedNode[] {
  const indices = new Map(turns.map(({ point }, index) => [point, index]));
  const firsts = new Map<string, number>();
  return turns.map(({ point, asked, answer: { segment } }, index): PlayedNode => {
    const sequence = chains.findIndex((chain) => chain.some((turn) => turn.point === point));
    const chain = chains[sequence] as readonly PlayedTurn[];
    const place = chain.findIndex((turn) => turn.point === point);
    // Each turn of a chain is one message behind those that were given for it.
    const message = chain.slice(0, place + 1).reduce((sum, turn) => sum + turn.asked.next.length + 1, -1);
    const first = firsts.get(asked.key);
    if (first === undefined) firsts.set(asked.key, index);
    const sampled = segment.sampled.reduce((sum, one) => sum + one, 0);
    const rewritten = asked.rewritten - (asked.point?.rewritten ?? 0);
    return {
      parent: point.parent ? (indices.get(point.parent) ?? null) : null,
      sequence,
      message,
      given: point.ids.length - sampled,
      sampled,
      ...(first === undefined ? {} : { again: first }),
      ...(rewritten > 0 ? { rewritten } : {}),
    };
  });
}

/** @param closing id with which the template closes a turn */
export function sequencesOf(played: readonly PlayedTurn[], closing: number): PlayedSequences {
  const turns = [...played].sort((a, b) => a.number - b.number);
  const byPoint = new Map(turns.map((turn) => [turn.point, turn]));
  const parents = new Set(turns.map(({ point }) => point.parent));
  const chains = turns.filter(({ point }) => !parents.has(point)).map((leaf) => chainTo(leaf, byPoint));
  // The first conversation is the one that began first, as it went on last.
  const [root] = turns.filter(({ point }) => point.parent === null);
  const main = chains.findLast((chain) => chain[0] === root);
  if (!main) return { first: undefined, branches: [], leaf: undefined, tree: [] };
  const taken = new Set<PlayedTurn>();
  const ordered = [main, ...chains.filter((chain) => chain !== main)];
  const made = ordered.map((chain) => {
    const own = new Set(chain.filter((turn) => !taken.has(turn)));
    for (const turn of own) taken.add(turn);
    const isOwn = (turn: PlayedTurn) => own.has(turn);
    return { messages: messagesOf(chain), calls: callsOf(chain, isOwn), tokens: tokensOf(chain, isOwn, closing) };
  });
  const tree = made.length > 1 ? treeOf(turns, ordered) : [];
  const [first, ...others] = made;
  const branches = others.map(({ calls, ...branch }) => ({ ...branch, ...(calls.length > 0 ? { calls } : {}) }));
  return { first, branches, leaf: main.at(-1), tree };
}
