/**
 * The model's own chat template, as tokens. The first prompt is rendered by the template; a later turn is the text that the
 * template adds after the assistant's. Earlier text is never rendered again, so templates that rewrite history (Qwen3 drops
 * old `<think>` blocks) are not followed: history stays as sampled.
 *
 * Special tokens come from the template alone. A mail that contains "<|im_end|>" stays text: it passes through the template
 * as a placeholder, the rendered text is split at the special tokens that the template placed, and every piece between is
 * tokenised without special tokens.
 * Tokens that frame calls and results without being special ("<tool_call>" in Qwen's vocabularies) are the template's, the
 * system prompt's and the model's own too. Elsewhere, in a question, a tool or its result, their text is cut in two pieces.
 *
 * This needs a tokenizer that treats pieces separately as it treats them together, as byte-level BPE does; SentencePiece puts
 * a space before each piece, which is removed where a piece continues text.
 */
import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { callId, usableId } from "../core/rollout/reading.js";
import type { ChatMessage, ToolCall, ToolSchema } from "../core/task/task.js";
import { HoneError, messageOf } from "../core/util/errors.js";
import { toJson } from "../core/util/json.js";
import { JinjaTemplate } from "./jinja/template.js";
import { UnsupportedTemplate } from "./jinja/values.js";

/** The tokenizer's functions that a template needs. */
export interface TemplateTokenizer {
  /** Ids of a text, without recognising control tokens. */
  tokenize(text: string): ArrayLike<number>;
  /** Control tokens ("<|im_end|>") by their text. */
  readonly controlTokens: ReadonlyMap<string, number>;
  /** Other texts that are one token, which frame calls, results and thoughts. */
  readonly framing: readonly string[];
  readonly bosText: string;
  readonly eosText: string;
  /** Whether the tokenizer puts a space before every text, as SentencePiece does; correct after a control token only. */
  readonly spaced?: boolean;
}

/** A model's templates: Jinja texts. */
export interface TemplateSources {
  readonly chat: string;
  /** That of conversations with tools, in which transformers takes the template named `tool_use`; null: the same. */
  readonly tools: string | null;
}

/** A template's Jinja text and what it is given. */
export interface AskedTemplate {
  readonly template: string;
  readonly variables: Readonly<Record<string, unknown>>;
  /** Only the text after the last of these is wanted. */
  readonly behind?: string;
}

/** What tells a model of tools where its template does not. */
export interface ToolWriter {
  /** The part of the system prompt that says what tools there are. */
  describe(tools: readonly unknown[]): string;
  /** As in {@link ChatTemplate.turn}. */
  write(calls: readonly ToolCall[], asText: (json: string) => string): string;
}

/** A tokenizer for conversations that others have written, which may be too long. */
export interface BoundedTokenizer {
  /** Number of tokens that there is room for. */
  readonly most: number;
  /** As {@link TemplateTokenizer.tokenize}; null where there are more than `most`. */
  tokenize(text: string): ArrayLike<number> | null | Promise<ArrayLike<number> | null>;
}

/**
 * Unicode noncharacters around the number of a protected text. All characters of their block are protected texts
 * themselves: the template's input never contains one that hone did not put there.
 */
const OPEN = "\uFDD0";
const CLOSE = "\uFDD1";
const NONCHARACTERS = Array.from({ length: 32 }, (_, index) => String.fromCharCode(0xfdd0 + index));
const STAND_IN = new RegExp(`${OPEN}(\\d+)${CLOSE}`, "g");
/** Where a framing text is cut. */
const CUT = "\uFDD4";
/** In the place of a tool's result, while it is determined whether a template writes one. */
const RESULT = "\uFDD2result\uFDD3";
/** The date that Llama 3's template falls back to: a prompt must not change from day to day. */
const DATE = "26 Jul 2024";
const DATE_PARTS: Readonly<Record<string, string>> = {
  Y: "2024",
  y: "24",
  m: "07",
  d: "26",
  B: "July",
  b: "Jul",
  A: "Friday",
  a: "Fri",
  H: "00",
  M: "00",
  S: "00",
  "%": "%",
};
/** In the place of the function that gives templates today's date. */
const now = (format: string) => format.replace(/%([a-zA-Z%])/g, (all, letter: string) => DATE_PARTS[letter] ?? all);
/**
 * Placeholder for the assistant's turn while the text after it is determined. The one message whose text is not protected.
 */
const TURN: ChatMessage = { role: "assistant", content: "\uFDD2turn\uFDD3" };

/** A conversation by which templates are tried. */
export const QUESTION: ChatMessage = { role: "user", content: "?" };
export const LOOK: ToolSchema = {
  type: "function",
  function: { name: "look", description: "Look.", parameters: { type: "object", properties: {} } },
};

/** Matches any of the texts, preferring earlier ones. */
function anyOf(texts: readonly string[]): string {
  // The last alternative never matches: needed when there are no texts.
  return [...texts.map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")), "(?!)"].join("|");
}

const longestFirst = (texts: Iterable<string>) => [...texts].sort((a, b) => b.length - a.length);

/**
 * A framing text with a cut, behind letters and before none: there every published pre-tokenizer of byte-level BPE begins a
 * new word, so the pieces have the tokens that the whole text would have without a token of its own.
 */
function withCut(text: string): string {
  const words = text.search(/(?<=\p{L})[^\p{L}\p{M}\p{N}']/u);
  const at = words > 0 ? words : text.length >> 1;
  return text.slice(0, at) + CUT + text.slice(at);
}

/**
 * Messages in the form that templates take, Hugging Face's. Calls without an id, from players without tokens, get the
 * number of their position in the turn, and so do their results.
 */
function templateMessages(messages: readonly ChatMessage[], withIds: boolean): unknown[] {
  let results = 0;
  return messages.map((message) => {
    if (message === TURN) return message;
    results = message.role === "tool" ? results + 1 : 0;
    if (message.role === "tool") {
      const { id, ...rest } = message;
      return withIds ? { ...rest, tool_call_id: usableId(id) ?? callId(results) } : rest;
    }
    if (message.role !== "assistant" || !message.tool_calls) return { ...message };
    const calls = message.tool_calls.map(({ id, ...call }, index) => ({
      type: "function",
      ...(withIds ? { id: usableId(id) ?? callId(index + 1) } : {}),
      function: call,
    }));
    return { role: message.role, content: message.content, tool_calls: calls };
  });
}

/** Messages with a text behind that of the system message, which is made where there is none. */
function withSystemText(messages: readonly unknown[], text: string): unknown[] {
  const [first, ...rest] = messages as { role: string; content: string }[];
  if (first?.role !== "system") return [{ role: "system", content: text }, ...messages];
  return [{ ...first, content: first.content === "" ? text : `${first.content}\n\n${text}` }, ...rest];
}

/**
 * Messages with results of tools in the user's, in the form that Qwen's templates give them. One follows an assistant's: some
 * templates refuse two in a row.
 */
function withResultsOfUser(messages: readonly unknown[]): unknown[] {
  const all: { role: string; content: string }[] = [];
  for (const message of messages as { role: string; content: string }[]) {
    const isResult = message.role === "tool";
    const own = isResult
      ? { role: "user", content: `<tool_response>\n${message.content}\n</tool_response>` }
      : { ...message };
    const last = all.at(-1);
    // A question that follows results is one with them, and so are several results.
    if (last?.role === "user" && own.role === "user" && last.content.endsWith("</tool_response>")) {
      last.content += `\n${own.content}`;
    } else all.push(own);
  }
  return all;
}

/** The template uses something that hone would render otherwise than transformers. */
export class UnusableTemplate extends HoneError {
  constructor(cause: UnsupportedTemplate) {
    super(`the model's chat template cannot be used: ${cause.message}; take another model`, { cause });
  }
}

const keyOf = (messages: readonly ChatMessage[], tools: readonly ToolSchema[]) =>
  hash("sha256", toJson([messages, tools]), "base64");

export class ChatTemplate {
  readonly #sources: TemplateSources;
  readonly #template: JinjaTemplate;
  /** In conversations with tools. */
  readonly #toolTemplate: JinjaTemplate;
  readonly #tokenizer: TemplateTokenizer;
  readonly #toolWriter: ToolWriter | undefined;
  /** Whether results of tools are the user's, since the template drops or refuses them. */
  readonly #resultsOfUser: boolean;
  /** Values of the template's own variables. */
  readonly args: Readonly<Record<string, unknown>>;
  /** Whether the template writes ids of calls; other templates do not get them. */
  readonly usesIds: boolean;
  /** Longest first, so that a token that begins with another is found whole. */
  readonly #control: readonly string[];
  readonly #splitter: RegExp;
  /** Protected texts by the number of their placeholder, and the other way round. */
  readonly #apart: readonly string[];
  /** Number of the first framing text; all behind it are such. */
  readonly #firstFraming: number;
  readonly #standIns: ReadonlyMap<string, string>;
  readonly #toProtect: RegExp;
  /** As the one before, with framing texts. */
  readonly #toKeepApart: RegExp;
  /** By a hash of messages and tools, which may be long. */
  readonly #prompts = new LRUCache<string, readonly number[]>({ max: 16 });
  /** Ids of tokens that end an assistant's turn in this template. */
  readonly closing: { readonly text: string; readonly id: number };
  /** The text before a turn of the model, from the end of an earlier one on. */
  readonly opening: string;

  /**
   * @param sources the Jinja texts
   * @param args values of the template's own variables (`enable_thinking`)
   * @param toolWriter for a template that shows no tools: they stand in the system message, behind its own text
   * @throws HoneError when it cannot be parsed, or does not end an assistant's turn with a special token
   */
  constructor(
    sources: TemplateSources,
    tokenizer: TemplateTokenizer,
    args: Readonly<Record<string, unknown>> = {},
    toolWriter?: ToolWriter,
  ) {
    this.#sources = sources;
    try {
      this.#template = new JinjaTemplate(sources.chat);
      this.#toolTemplate = sources.tools === null ? this.#template : new JinjaTemplate(sources.tools);
    } catch (error) {
      throw new HoneError(`the model's chat template cannot be read: ${messageOf(error)}`, { cause: error });
    }
    this.#tokenizer = tokenizer;
    this.#toolWriter = toolWriter;
    this.args = args;
    this.usesIds = /\b(tool_call_)?id\b/.test(sources.tools ?? sources.chat);
    this.#control = longestFirst(tokenizer.controlTokens.keys());
    this.#splitter = new RegExp(`(${anyOf(this.#control)})`);
    const toProtect = [...this.#control, ...NONCHARACTERS];
    this.#firstFraming = toProtect.length;
    // A text of one character cannot be cut.
    this.#apart = [...toProtect, ...longestFirst(tokenizer.framing).filter((text) => text.length > 1)];
    this.#standIns = new Map(this.#apart.map((text, index) => [text, `${OPEN}${index}${CLOSE}`]));
    this.#toProtect = new RegExp(anyOf(toProtect), "g");
    this.#toKeepApart = new RegExp(anyOf(longestFirst(this.#apart)), "g");
    this.#resultsOfUser = toolWriter !== undefined && !this.#writesResults();
    const after = this.#afterAny();
    this.closing = this.#findClosing(after);
    this.opening = this.#unprotect(after);
    this.#checkClosings();
  }

  /** Protects texts and keys at any depth. @param apart what is protected */
  #protect(value: unknown, apart: RegExp): unknown {
    if (typeof value === "string") return value.replace(apart, (found) => this.#standIns.get(found) ?? "");
    if (Array.isArray(value)) return value.map((item) => this.#protect(item, apart));
    if (typeof value === "object" && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [this.#protect(key, apart), this.#protect(item, apart)]),
      );
    }
    return value;
  }

  /** Framing texts are a task's and a model's own to write, but not within the arguments of a call. */
  #protectMessage(message: unknown): unknown {
    const { role, tool_calls: calls, ...rest } = message as Record<string, unknown>;
    const own = role === "system" || role === "assistant";
    return {
      ...(this.#protect({ role, ...rest }, own ? this.#toProtect : this.#toKeepApart) as object),
      ...(calls === undefined ? {} : { tool_calls: this.#protect(calls, this.#toKeepApart) }),
    };
  }

  #unprotect(text: string): string {
    return text.replace(STAND_IN, (_, index: string) => this.#apart[Number(index)] ?? "");
  }

  /** A text, or an object's keys, unprotected. */
  #plain(value: unknown): unknown {
    if (typeof value === "string") return this.#unprotect(value);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [this.#unprotect(key), item]));
  }

  /** A text in the pieces that are to be tokenised one by one. */
  #pieces(text: string): string[] {
    const cut = text.replace(STAND_IN, (found, index: string) =>
      Number(index) < this.#firstFraming ? found : withCut(this.#apart[Number(index)] ?? ""),
    );
    return cut.split(CUT).map((piece) => this.#unprotect(piece));
  }

  #render(messages: readonly ChatMessage[], tools: readonly ToolSchema[], more: Record<string, unknown>): string {
    const variables = this.#variables(messages, tools, more);
    const template = variables.tools === null ? this.#template : this.#toolTemplate;
    try {
      return template.render(variables, { strftime_now: now });
    } catch (error) {
      if (error instanceof UnsupportedTemplate) throw new UnusableTemplate(error);
      throw new HoneError(`the model's chat template refuses this conversation: ${messageOf(error)}`, { cause: error });
    }
  }

  /** What the template is given, protected. */
  #variables(messages: readonly ChatMessage[], tools: readonly ToolSchema[], more: Record<string, unknown>) {
    const writer = tools.length > 0 ? this.#toolWriter : undefined;
    const shown = templateMessages(messages, this.usesIds).map((message, index) => {
      if (message === TURN) return message;
      const own = messages[index];
      if (!writer || own?.role !== "assistant" || !own.tool_calls) return this.#protectMessage(message);
      return { role: own.role, content: this.#withCalls(own.content, own.tool_calls, writer.write) };
    });
    const apart = tools.length > 0 ? (this.#protect(tools, this.#toKeepApart) as readonly unknown[]) : null;
    const said = writer && this.#resultsOfUser ? withResultsOfUser(shown) : shown;
    return {
      messages: writer && apart ? withSystemText(said, writer.describe(apart)) : said,
      // None where there are none, as in transformers.
      tools: writer ? null : apart,
      documents: null,
      bos_token: this.#tokenizer.bosText,
      eos_token: this.#tokenizer.eosText,
      date_string: DATE,
      ...(this.#protect(this.args, this.#toProtect) as Record<string, unknown>),
      ...more,
    };
  }

  /** For another renderer: the Jinja text of a conversation, and its variables as plain texts. */
  asked(messages: readonly ChatMessage[], tools: readonly ToolSchema[]): AskedTemplate {
    const { chat, tools: ofTools } = this.#sources;
    const given = this.#variables(messages, tools, { add_generation_prompt: true });
    const variables = JSON.parse(JSON.stringify(given), (_, value) => this.#plain(value)) as typeof given;
    return { template: given.tools === null ? chat : (ofTools ?? chat), variables };
  }

  /** As {@link asked}, of the messages behind a turn: what is wanted is the text after `behind`. */
  askedAfter(
    before: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    next: readonly ChatMessage[],
  ): AskedTemplate {
    return { ...this.asked([...before, TURN, ...next], tools), behind: TURN.content };
  }

  /**
   * The control tokens of a rendered text, and the texts between them that are to be tokenised one by one.
   *
   * @param before the preceding text; empty, or ending with a control token, where a new text begins
   * @returns `skip`: ids at the beginning that are none of the text's. What goes on has no space that SentencePiece puts before it: it is
   *   tokenised after a character that merges with no other
   */
  *#parts(rendered: string, before = ""): Generator<number | { readonly text: string; readonly skip: number }> {
    const { controlTokens, spaced } = this.#tokenizer;
    let goesOn = before !== "" && !this.#control.some((control) => before.endsWith(control));
    for (const piece of rendered.split(this.#splitter)) {
      const control = controlTokens.get(piece);
      if (control !== undefined) {
        goesOn = false;
        yield control;
        continue;
      }
      for (const text of this.#pieces(piece)) {
        if (text === "") continue;
        yield goesOn && spaced ? { text: OPEN + text, skip: this.#tokenizer.tokenize(OPEN).length } : { text, skip: 0 };
        goesOn = true;
      }
    }
  }

  /** Converts text, in which special tokens are the template's own, to ids. @param before as of {@link parts} */
  #encode(rendered: string, before = ""): number[] {
    const ids: number[] = [];
    for (const part of this.#parts(rendered, before)) {
      if (typeof part === "number") {
        ids.push(part);
        continue;
      }
      const found = this.#tokenizer.tokenize(part.text);
      for (let i = part.skip; i < found.length; i++) ids.push(found[i] as number);
    }
    return ids;
  }

  /** As {@link encode} for a new text; null where the ids are more than there is room for. */
  async #encodeWithin(rendered: string, { most, tokenize }: BoundedTokenizer): Promise<number[] | null> {
    const ids: number[] = [];
    for (const part of this.#parts(rendered)) {
      const skip = typeof part === "number" ? 0 : part.skip;
      const asked = typeof part === "number" ? [part] : tokenize(part.text);
      const found = asked instanceof Promise ? await asked : asked;
      if (found === null || ids.length + found.length - skip > most) return null;
      for (let i = skip; i < found.length; i++) ids.push(found[i] as number);
    }
    return ids;
  }

  /** Whether the template writes results of tools where nothing says that there are tools. */
  #writesResults(): boolean {
    const messages: ChatMessage[] = [QUESTION, TURN, { role: "tool", name: LOOK.function.name, content: RESULT }];
    try {
      return this.#render(messages, [], { add_generation_prompt: true }).includes(
        this.#protect(RESULT, this.#toProtect) as string,
      );
    } catch {
      return false;
    }
  }

  /** The text after an assistant's turn, from its closing token on. */
  #after(
    before: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    next: readonly ChatMessage[],
    open: boolean,
  ): string {
    const text = this.#render([...before, TURN, ...next], tools, { add_generation_prompt: open });
    const at = text.lastIndexOf(TURN.content);
    if (at < 0) throw new HoneError("the model's chat template drops assistant messages, so turns cannot be appended");
    return text.slice(at + TURN.content.length);
  }

  /** The text after a turn in a conversation without tools, or with one where a template requires it. */
  #afterAny(): string {
    try {
      return this.#after([QUESTION], [], [QUESTION], true);
    } catch (error) {
      try {
        return this.#after([QUESTION], [LOOK], [QUESTION], true);
      } catch {
        // The first error is the informative one about the template.
        throw error;
      }
    }
  }

  /** One end of turns serves both templates. */
  #checkClosings(): void {
    if (this.#toolTemplate === this.#template) return;
    const { text } = this.#findClosing(this.#after([QUESTION], [LOOK], [QUESTION], true));
    if (text === this.closing.text) return;
    throw new HoneError(
      `the model's chat templates end turns differently: ${this.closing.text}, and ${text} where there are tools; take another model`,
    );
  }

  #findClosing(after: string): { text: string; id: number } {
    const text = this.#control.find((control) => after.startsWith(control));
    const id = text === undefined ? undefined : this.#tokenizer.controlTokens.get(text);
    if (text === undefined || id === undefined) {
      throw new HoneError(
        "the model's chat template does not end an assistant's turn with a special token; use a chat model",
      );
    }
    return { text, id };
  }

  /** The prompt as text, for people and for comparison with `apply_chat_template`. */
  promptText(messages: readonly ChatMessage[], tools: readonly ToolSchema[]): string {
    return this.#unprotect(this.#render(messages, tools, { add_generation_prompt: true }));
  }

  /** Ids of everything before the model's first turn. The latest are kept: the rollouts of a group have the same prompt. */
  prompt(messages: readonly ChatMessage[], tools: readonly ToolSchema[]): readonly number[] {
    const key = keyOf(messages, tools);
    const known = this.#prompts.get(key);
    if (known) return known;
    const ids = this.#encode(this.#render(messages, tools, { add_generation_prompt: true }));
    this.#prompts.set(key, ids);
    return ids;
  }

  /** As {@link prompt}; null where there is no room for it. Only prompts that fit are kept. */
  async promptWithin(
    tokenizer: BoundedTokenizer,
    messages: readonly ChatMessage[],
    tools: readonly ToolSchema[],
  ): Promise<readonly number[] | null> {
    const key = keyOf(messages, tools);
    const known = this.#prompts.get(key);
    if (known) return known.length > tokenizer.most ? null : known;
    const ids = await this.#encodeWithin(this.#render(messages, tools, { add_generation_prompt: true }), tokenizer);
    if (ids) this.#prompts.set(key, ids);
    return ids;
  }

  /** Ids of a text that continues a turn: special tokens in it are recognised. */
  encode(text: string): number[] {
    return this.#encode(text, TURN.content);
  }

  /**
   * An assistant's turn as the template writes it, including the closing token.
   *
   * @param before the messages of the first prompt
   */
  #turn(
    before: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    message: ChatMessage,
  ): { start: string; text: string } {
    const whole = this.#render([...before, message], tools, { add_generation_prompt: false });
    const opened = this.#render(before, tools, { add_generation_prompt: true });
    const start = whole.startsWith(opened) ? opened : this.#startOfTurn(before, tools);
    // The text of the message is protected, so the first closing text is the template's own.
    const end = whole.indexOf(this.closing.text, start.length);
    if (!whole.startsWith(start) || end < 0) {
      throw new HoneError("the model's chat template writes a finished turn otherwise than it opens one");
    }
    return { start, text: whole.slice(start.length, end + this.closing.text.length) };
  }

  /** Some templates (Mistral's) write a prompt differently once a turn follows it: everything before that turn. */
  #startOfTurn(before: readonly ChatMessage[], tools: readonly ToolSchema[]): string {
    const text = this.#render([...before, TURN], tools, { add_generation_prompt: false });
    return text.slice(0, Math.max(0, text.indexOf(TURN.content)));
  }

  /** As {@link turn}, without the closing token, as text. */
  turnText(before: readonly ChatMessage[], tools: readonly ToolSchema[], message: ChatMessage): string {
    return this.#unprotect(this.#turn(before, tools, message).text.slice(0, -this.closing.text.length));
  }

  /** The text of a turn with its calls, protected. */
  #withCalls(content: string, calls: readonly ToolCall[], write: ToolWriter["write"]): string {
    const text = this.#protect(content, this.#toProtect) as string;
    const written = write(calls, (json) => this.#protect(json, this.#toKeepApart) as string);
    return text === "" ? written : `${text}\n${written}`;
  }

  /**
   * Ids of an assistant's turn as this template writes it, including the closing token, for supervised learning. Sampled
   * turns are never made this way.
   *
   * @param before the messages of the first prompt
   * @param write writes calls where the template is not to do so; special tokens that it writes are such tokens, those
   * in what it gives to `asText` are not
   */
  turn(
    before: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    message: ChatMessage,
    write?: ToolWriter["write"],
  ): number[] {
    if (!write || message.role !== "assistant" || !message.tool_calls) {
      const { start, text } = this.#turn(before, tools, message);
      return this.#encode(text, start);
    }
    const { start, text } = this.#turn(before, tools, TURN);
    const written = this.#withCalls(message.content, message.tool_calls, write);
    return this.#encode(
      text.replace(TURN.content, () => written),
      start,
    );
  }

  /**
   * Ids between two assistant turns: the rest of the closed turn, the messages, and the opening of the next turn.
   *
   * @param before the messages of the first prompt
   * @param next the messages between, usually tool results
   * @param closed whether the turn already ended with the template's own closing token
   */
  delta(
    before: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    next: readonly ChatMessage[],
    closed: boolean,
  ): number[] {
    return this.#encode(this.#between(before, tools, next, closed));
  }

  /** As {@link delta}; null where there is no room for it. */
  async deltaWithin(
    tokenizer: BoundedTokenizer,
    before: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    next: readonly ChatMessage[],
    closed: boolean,
  ): Promise<number[] | null> {
    return this.#encodeWithin(this.#between(before, tools, next, closed), tokenizer);
  }

  #between(
    before: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    next: readonly ChatMessage[],
    closed: boolean,
  ): string {
    const after = this.#after(before, tools, next, true);
    return closed ? after.slice(this.closing.text.length) : after;
  }
}
