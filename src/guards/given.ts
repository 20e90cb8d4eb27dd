/**
 * What the model was given to read, read back: the tokens of a rollout's prompt as text, beside its messages rendered anew; and
 * the tokens between its turns, beside those that follow from the record.
 */
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { TokenRecord } from "../core/rollout/transcript.js";
import type { ChatMessage, ToolSchema } from "../core/task/task.js";
import { demanding, type Guard } from "../core/train/guard.js";
import { HoneError } from "../core/util/errors.js";

/** Of the model that plays, loaded apart from its players. */
export interface GivenReader {
  readonly template: {
    promptText(messages: readonly ChatMessage[], tools: readonly ToolSchema[]): string;
    delta(
      before: readonly ChatMessage[],
      tools: readonly ToolSchema[],
      next: readonly ChatMessage[],
      closed: boolean,
    ): readonly number[];
  };
  /** Ids that end a turn. */
  readonly closing: readonly number[];
  /** Of the task. */
  readonly tools: readonly ToolSchema[];
  /** With the texts of special tokens. */
  tokenize(text: string): ArrayLike<number>;
  detokenize(ids: ArrayLike<number>): string;
}

/** SentencePiece puts spaces before texts, and where text goes on hone takes them out. */
export const unspaced = (text: string) => Buffer.from(text.replaceAll(" ", "")).toString();

const SHOWN = 40;

/** Where the first difference is, in words. */
export function difference(found: string, wanted: string): string {
  let at = 0;
  while (at < Math.min(found.length, wanted.length) && found[at] === wanted[at]) at++;
  const from = Math.max(0, at - SHOWN / 2);
  const [is, was] = [wanted, found].map((text) => JSON.stringify(text.slice(from, from + SHOWN)));
  return `${was} in place of ${is}`;
}

interface Turns {
  /** Tokens before the first that was sampled. */
  readonly prompt: readonly number[];
  /** Tokens given between two turns, with the token before them. */
  readonly between: readonly { readonly last: number; readonly ids: readonly number[] }[];
}

export function turnsOf({ ids, sampled }: TokenRecord): Turns {
  const ends = ids.flatMap((_, i) => (sampled[i] === 1 && sampled[i + 1] !== 1 ? [i] : []));
  const between = ends.slice(0, -1).map((end) => {
    const next = sampled.indexOf(1, end + 1);
    return { last: ids[end] as number, ids: ids.slice(end + 1, next) };
  });
  return { prompt: ids.slice(0, Math.max(0, sampled.indexOf(1))), between };
}

/** The messages before the first of the model's turns, and those behind each. */
export function conversationOf(messages: readonly ChatMessage[], turns: number): [ChatMessage[], ...ChatMessage[][]] {
  const parts: [ChatMessage[], ...ChatMessage[][]] = [[]];
  // A prompt may have turns of its own: examples.
  let examples = messages.filter(({ role }) => role === "assistant").length - turns;
  for (const message of messages) {
    if (message.role === "assistant" && examples-- <= 0) parts.push([]);
    else parts.at(-1)?.push(message);
  }
  return parts;
}

function wrongIn({ messages, turns, tokens }: Trajectory, reader: GivenReader): string | undefined {
  if (!tokens?.sampled.includes(1)) return undefined;
  const { template, tools, closing } = reader;
  const { prompt, between } = turnsOf(tokens);
  const [opening, ...after] = conversationOf(messages, turns);
  const wanted = template.promptText(opening, tools);
  const found = reader.detokenize(prompt);
  // A tokenizer that loses something of the text cannot say.
  const isKept = () => unspaced(reader.detokenize(reader.tokenize(wanted))) === unspaced(wanted);
  if (unspaced(found) !== unspaced(wanted) && isKept()) return `its prompt reads ${difference(found, wanted)}`;
  // A turn has several parts where its thoughts were cut short.
  if (between.length !== turns - 1) return undefined;
  for (const [turn, { last, ids }] of between.entries()) {
    const again = template.delta(opening, tools, after[turn] ?? [], closing.includes(last));
    if (again.length === ids.length && again.every((id, i) => id === ids[i])) continue;
    return `behind its turn ${turn + 1} it reads ${difference(reader.detokenize(ids), reader.detokenize(again))}`;
  }
  return undefined;
}

/** Whether hone played it as one sequence. What an agent's own code sent is in its requests. */
export const isOwn = ({ agent, branches, tokens }: Trajectory) => tokens !== undefined && !agent && !branches;

/** @throws HoneError where the first rollout of a group that hone itself played was given other tokens than its messages are */
export function checkGiven(group: readonly Trajectory[], reader: GivenReader): void {
  const first = group.find(isOwn);
  const wrong = first && wrongIn(first, reader);
  if (wrong === undefined) return;
  throw new HoneError(
    `the rollout ${first?.id} was given other tokens than its messages have: ${wrong}; the step was not taken. The same command plays it again`,
  );
}

export const givenGuard = (reader: GivenReader): Guard => ({
  name: "prompts by a second path",
  sees: "a prompt, or text between two turns, that is not the conversation's",
  afterPlay: ({ group }) => demanding("drop these rollouts", () => checkGiven(group, reader)),
});
