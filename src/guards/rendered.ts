/**
 * What the model was given to read, beside what another renderer makes of the model's template (Jinja2, as in transformers): the
 * prompt of a rollout and the text behind each of its turns. given.ts reads them back by the renderer that wrote them.
 */
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { ChatMessage, ToolSchema } from "../core/task/task.js";
import { demanding, type Guard, type Wrong } from "../core/train/guard.js";
import { deriveSeed } from "../core/util/random.js";
import { conversationOf, difference, type GivenReader, isOwn, turnsOf, unspaced } from "./given.js";

/** A template and what it is given, plain data. */
type Asked = object;

export interface RenderedReader extends Pick<GivenReader, "closing" | "tools" | "tokenize" | "detokenize"> {
  readonly template: {
    /** The text that ends a turn. */
    readonly closing: { readonly text: string };
    asked(messages: readonly ChatMessage[], tools: readonly ToolSchema[]): Asked;
    askedAfter(before: readonly ChatMessage[], tools: readonly ToolSchema[], next: readonly ChatMessage[]): Asked;
  };
}

/** The other renderer could not be asked, or refuses. */
export class NotRendered extends Error {}

/** The texts of templates. Rejects with NotRendered. */
export type Renderer = (asked: readonly Asked[]) => Promise<readonly string[]>;

/** @returns what is wrong, where the rollout was given other tokens than the other renderer gives its messages */
export async function checkRendered(
  { id, messages, turns, tokens }: Trajectory,
  { template, tools, closing, tokenize, detokenize }: RenderedReader,
  render: Renderer,
): Promise<Wrong> {
  if (!tokens?.sampled.includes(1)) return undefined;
  const { prompt, between } = turnsOf(tokens);
  const [opening, ...after] = conversationOf(messages, turns);
  // A turn has several parts where its thoughts were cut short.
  const behind = between.length === turns - 1 ? between : [];
  const [whole = "", ...texts] = await render([
    template.asked(opening, tools),
    ...behind.map((_, turn) => template.askedAfter(opening, tools, after[turn] ?? [])),
  ]);
  const places = [
    { where: "its prompt", found: detokenize(prompt), wanted: whole },
    ...behind.map(({ last, ids }, turn) => ({
      where: `behind its turn ${turn + 1} it`,
      // A turn that ended by itself has its end from the model.
      found: (closing.includes(last) ? template.closing.text : "") + detokenize(ids),
      wanted: texts[turn] ?? "",
    })),
  ];
  for (const { where, found, wanted } of places) {
    if (unspaced(found) === unspaced(wanted)) continue;
    // A tokenizer that loses something of the text cannot say.
    if (unspaced(detokenize(tokenize(wanted))) !== unspaced(wanted)) continue;
    return `the rollout ${id} was given another text than Jinja2 makes of the model's chat template: ${where} reads ${difference(found, wanted)}; the step was not taken. The same command plays it again`;
  }
  return undefined;
}

export function renderedGuard(reader: RenderedReader, render: Renderer): Guard {
  let latest: number | undefined;
  let told = false;
  return {
    name: "prompts by another renderer",
    sees: "a chat template that is rendered otherwise than transformers does, in one rollout of each step",
    afterPlay: async ({ group, seedName, step }) => {
      if (told || latest === step) return undefined;
      const own = group.filter(isOwn);
      const chosen = own[deriveSeed("rendered", seedName, step) % own.length];
      if (chosen === undefined) return undefined;
      latest = step;
      try {
        return await demanding("drop these rollouts", () => checkRendered(chosen, reader, render));
      } catch (error) {
        if (!(error instanceof NotRendered)) throw error;
        told = true;
        return { demand: "note", text: `prompts are not compared with another renderer's: ${error.message}` };
      }
    },
  };
}
