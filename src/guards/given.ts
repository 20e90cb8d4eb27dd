/**
 * What the model was given to read, read back: the tokens of a rollout's prompt as text, beside its messages rendered anew; and
 * the tokens between its turns, beside those that follow from the record.
 */
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { TokenRecord } from "../core/rollout/transcript.js";
import type { ChatMessage, Scenario, ToolSchema } from "../core/task/task.js";
import { demanding, type Guard, type Wrong } from "../core/train/guard.js";
import { toJson } from "../core/util/json.js";

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

function wrongIn({ messages, turns, tokens }: Trajectory, reader: GivenReader): Wrong {
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

/** @returns what is wrong, where the first rollout of a group that hone itself played was given other tokens than its messages are */
export function checkGiven(group: readonly Trajectory[], reader: GivenReader): Wrong {
  const first = group.find(isOwn);
  const wrong = first && wrongIn(first, reader);
  if (wrong === undefined) return undefined;
  return `the rollout ${first?.id} was given other tokens than its messages have: ${wrong}; the step was not taken. The same command plays it again`;
}

export const givenGuard = (reader: GivenReader): Guard => ({
  name: "prompts by a second path",
  sees: "a prompt, or text between two turns, that is not the conversation's",
  afterPlay: ({ group }) => demanding("drop these rollouts", () => checkGiven(group, reader)),
});

// What the model was told of its calls, beside the record of what its tools returned.

function checkCalls({ id, messages, turns, calls }: Trajectory): Wrong {
  const [, ...after] = conversationOf(messages, turns);
  // Where the last turn ended the rollout, none of its calls was answered.
  const answers = after.flat().filter(({ role }) => role === "tool");
  for (const [i, { content }] of answers.entries()) {
    const call = calls[i];
    const result = call?.result ?? null;
    // A string that was no string to the tool, as a Date is none, is given as JSON.
    if (content === result || content === toJson(result)) continue;
    const wanted = typeof result === "string" ? result : toJson(result);
    return `in turn ${call?.turn} of the rollout ${id} the model was given another text than its call of ${call?.name} returned: ${difference(content, wanted)}; the step was not taken. The same command plays it again`;
  }
  return undefined;
}

/** @returns what is wrong, where a rollout that hone itself played was not told what its calls returned */
export function checkResults(group: readonly Trajectory[]): Wrong {
  return group
    .filter(isOwn)
    .map(checkCalls)
    .find((wrong) => wrong !== undefined);
}

// What the task asks of a rollout's scenario, asked once more: a rollout may have been given another's.

export type PromptOf = (scenario: Scenario) => readonly ChatMessage[];

/** undefined where the task cannot say here, or says something else each time. */
function askedTwice(prompt: PromptOf, scenario: Scenario): readonly ChatMessage[] | undefined {
  try {
    const asked = prompt(scenario);
    return toJson(prompt(scenario)) === toJson(asked) ? asked : undefined;
  } catch {
    return undefined;
  }
}

export function promptGuard(prompt: PromptOf | undefined): Guard {
  let told = false;
  return {
    name: "prompts by the task",
    sees: "a rollout whose prompt is not its scenario's; the run goes on, since a prompt may depend on the time",
    afterPlay: ({ group }) => {
      const one = group.find(isOwn);
      if (told || !prompt || one === undefined) return undefined;
      const asked = askedTwice(prompt, one.scenario);
      if (asked === undefined) return undefined;
      const [wanted, found] = [asked, one.messages.slice(0, asked.length)].map((all) => toJson(all)) as [
        string,
        string,
      ];
      if (found === wanted) return undefined;
      told = true;
      const text = `the rollout ${one.id} was asked otherwise than the task asks now of its scenario: ${difference(found, wanted)}. Where a prompt depends on the time this is no fault`;
      return { demand: "note", text };
    },
  };
}
