/**
 * Decides which part of a turn may be streamed while it is sampled: the text up to a possible beginning of a call, of a
 * mark of thoughts, or of a stop text. The rest is sent at the turn's end.
 */
import type { Chat } from "../chat/chat.js";
import type { ReadTurn } from "../core/rollout/reading.js";
import { splitThoughts } from "../core/rollout/thoughts.js";

export interface Delta {
  readonly content?: string;
  readonly reasoning_content?: string;
}

/** The text without a suffix that may be the beginning of one of the marks. */
export function withoutBeginning(text: string, marks: readonly string[]): string {
  const longest = Math.max(0, ...marks.map((mark) => mark.length - 1));
  for (let length = Math.min(longest, text.length); length > 0; length--) {
    const end = text.slice(-length);
    if (marks.some((mark) => mark.length > length && mark.startsWith(end))) return text.slice(0, -length);
  }
  return text;
}

/** Thoughts without the marks around them. */
export function reasoningOf(thoughts: string, { marks }: Pick<Chat, "marks">): string {
  if (!marks) return thoughts.trim();
  const text = thoughts.trimStart();
  const from = text.startsWith(marks.open) ? marks.open.length : 0;
  const end = text.indexOf(marks.close, from);
  return text.slice(from, end < 0 ? undefined : end).trim();
}

export class Deltas {
  readonly #chat: Chat;
  readonly #withTools: boolean;
  readonly #holding: readonly string[];
  #content = "";
  #reasoning = "";

  /** @param stopTexts texts that end the turn */
  constructor(chat: Chat, withTools: boolean, stopTexts: readonly string[]) {
    this.#chat = chat;
    this.#withTools = withTools;
    const { marks, format } = chat;
    this.#holding = [
      ...stopTexts,
      ...(marks ? [marks.open, marks.close] : []),
      ...(withTools ? (format?.begins ?? []) : []),
    ];
  }

  /** Returns the part of the text that is new and may be sent. */
  push(text: string): Delta {
    const { marks, opened, format } = this.#chat;
    const safe = withoutBeginning(text, this.#holding);
    // Too short to decide whether it begins with thoughts.
    if (marks && !opened && text.trimStart().length < marks.open.length) return {};
    const { thoughts, said, open } = splitThoughts(safe, marks, opened);
    const reasoning = reasoningOf(thoughts, this.#chat);
    if (open) return this.#news("", reasoning);
    if (!this.#withTools || !format) return this.#news(said.trim(), reasoning);
    if (!format.begins) return this.#news("", reasoning);
    const calls = format.begins.map((mark) => said.indexOf(mark)).filter((at) => at >= 0);
    return this.#news((calls.length > 0 ? said.slice(0, Math.min(...calls)) : said).trim(), reasoning);
  }

  /** Returns the rest of a finished turn. */
  end(turn: ReadTurn): Delta {
    return this.#news(turn.said, reasoningOf(turn.thoughts, this.#chat));
  }

  #news(content: string, reasoning: string): Delta {
    const more = (before: string, now: string) => (now.startsWith(before) ? now.slice(before.length) : "");
    const said = more(this.#content, content);
    const thought = more(this.#reasoning, reasoning);
    this.#content += said;
    this.#reasoning += thought;
    return { ...(thought ? { reasoning_content: thought } : {}), ...(said ? { content: said } : {}) };
  }
}
