/**
 * The model's own chat template, as tokens. The first prompt is what the template renders; a later turn is what it adds
 * after the assistant's text. What came before is never rendered again, so templates that rewrite history (Qwen3 drops
 * old `<think>` blocks) are not followed: history stays as it was sampled.
 *
 * Special tokens come from the template alone. A mail that contains "<|im_end|>" stays text: it goes through the template
 * as a stand-in, the rendered text is cut at the special tokens that the template placed, and every piece between is
 * tokenised without special tokens.
 * This needs a tokenizer that treats pieces alone as it treats them together, as byte-level BPE does.
 */
import { Template } from "@huggingface/jinja";
import type { ChatMessage, ToolSchema } from "../tasks/index.js";
import { HoneError, messageOf } from "../util/index.js";

/** What a template needs to know of the tokenizer. */
export interface TemplateTokenizer {
  /** Ids of a text in which no control token is recognised. */
  tokenize(text: string): ArrayLike<number>;
  /** Control tokens ("<|im_end|>") by their text. */
  readonly controlTokens: ReadonlyMap<string, number>;
  readonly bosText: string;
  readonly eosText: string;
}

/**
 * Unicode noncharacters around the number of a text that must not be read as it stands. All of their block are
 * themselves among those texts: what is given to a template never holds one that hone did not put there.
 */
const OPEN = "\uFDD0";
const CLOSE = "\uFDD1";
const NONCHARACTERS = Array.from({ length: 32 }, (_, index) => String.fromCharCode(0xfdd0 + index));
const STAND_IN = new RegExp(`${OPEN}(\\d+)${CLOSE}`, "g");
/** The date that Llama 3's template falls back to. */
const DATE = "26 Jul 2024";
/** Stands for the assistant's turn while the text after it is found. The one message whose text is not protected. */
const TURN: ChatMessage = { role: "assistant", content: "\uFDD2turn\uFDD3" };

/** Matches any of the texts, an earlier one first. */
function anyOf(texts: readonly string[]): string {
  // The last alternative matches nothing: without texts there is nothing to match.
  return [...texts.map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")), "(?!)"].join("|");
}

/** Content as templates take it: Hugging Face's form of tool calls. */
function templateMessage(message: ChatMessage): Record<string, unknown> {
  if (message.role !== "assistant" || !message.tool_calls) return { ...message };
  return {
    role: message.role,
    content: message.content,
    tool_calls: message.tool_calls.map((call) => ({ type: "function", function: call })),
  };
}

export class ChatTemplate {
  readonly #template: Template;
  readonly #tokenizer: TemplateTokenizer;
  /** Longest first, so that a token that starts with another is found whole. */
  readonly #control: readonly string[];
  readonly #splitter: RegExp;
  /** Texts that pass through the template as stand-ins, by number, and the other way round. */
  readonly #apart: readonly string[];
  readonly #standIns: ReadonlyMap<string, string>;
  readonly #toProtect: RegExp;
  /** Ids of tokens that end an assistant's turn in this template. */
  readonly closing: { readonly text: string; readonly id: number };

  /**
   * @param source the Jinja text, from the model's `tokenizer.chat_template`
   * @throws HoneError when it cannot be parsed, or does not end an assistant's turn with a special token
   */
  constructor(source: string, tokenizer: TemplateTokenizer) {
    try {
      this.#template = new Template(source);
    } catch (error) {
      throw new HoneError(`the model's chat template cannot be read: ${messageOf(error)}`, { cause: error });
    }
    this.#tokenizer = tokenizer;
    this.#control = [...tokenizer.controlTokens.keys()].sort((a, b) => b.length - a.length);
    this.#splitter = new RegExp(`(${anyOf(this.#control)})`);
    this.#apart = [...this.#control, ...NONCHARACTERS];
    this.#standIns = new Map(this.#apart.map((text, index) => [text, `${OPEN}${index}${CLOSE}`]));
    this.#toProtect = new RegExp(anyOf(this.#apart), "g");
    this.closing = this.#findClosing();
  }

  #protectText(text: string): string {
    return text.replace(this.#toProtect, (found) => this.#standIns.get(found) ?? "");
  }

  /** Texts and keys, as deep as they lie. */
  #protect(value: unknown): unknown {
    if (typeof value === "string") return this.#protectText(value);
    if (Array.isArray(value)) return value.map((item) => this.#protect(item));
    if (typeof value === "object" && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [this.#protectText(key), this.#protect(item)]),
      );
    }
    return value;
  }

  #unprotect(text: string): string {
    return text.replace(STAND_IN, (_, index: string) => this.#apart[Number(index)] ?? "");
  }

  #render(messages: readonly ChatMessage[], tools: readonly ToolSchema[], more: Record<string, unknown>): string {
    try {
      return this.#template.render({
        messages: messages.map((message) => (message === TURN ? message : this.#protect(templateMessage(message)))),
        ...(tools.length > 0 ? { tools: this.#protect(tools) } : {}),
        bos_token: this.#tokenizer.bosText,
        eos_token: this.#tokenizer.eosText,
        // Llama 3's template prints today's date unless it is given one; a prompt must not change overnight.
        date_string: DATE,
        ...more,
      });
    } catch (error) {
      throw new HoneError(`the model's chat template refuses this conversation: ${messageOf(error)}`, { cause: error });
    }
  }

  /** Text in which special tokens are the template's own, to ids. */
  #encode(rendered: string): number[] {
    const ids: number[] = [];
    for (const piece of rendered.split(this.#splitter)) {
      const control = this.#tokenizer.controlTokens.get(piece);
      if (control !== undefined) ids.push(control);
      else if (piece !== "") {
        const part = this.#tokenizer.tokenize(this.#unprotect(piece));
        for (let i = 0; i < part.length; i++) ids.push(part[i] as number);
      }
    }
    return ids;
  }

  /** What follows an assistant's turn, from its closing token on. */
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

  #findClosing(): { text: string; id: number } {
    const after = this.#after([{ role: "user", content: "?" }], [], [{ role: "user", content: "!" }], true);
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

  /** Ids of everything before the model's first turn. */
  prompt(messages: readonly ChatMessage[], tools: readonly ToolSchema[]): number[] {
    return this.#encode(this.#render(messages, tools, { add_generation_prompt: true }));
  }

  /**
   * Ids of an assistant's turn as this template writes it, closing token included: what a model is shown that is to
   * learn the turn. Sampled turns are never made this way.
   *
   * @param before the messages of the first prompt
   */
  turn(before: readonly ChatMessage[], tools: readonly ToolSchema[], message: ChatMessage): number[] {
    const opened = this.#render(before, tools, { add_generation_prompt: true });
    const whole = this.#render([...before, message], tools, { add_generation_prompt: false });
    // What stands in the message is protected, so the first closing text is the template's own.
    const end = whole.indexOf(this.closing.text, opened.length);
    if (!whole.startsWith(opened) || end < 0) {
      throw new HoneError("the model's chat template writes a finished turn otherwise than it opens one");
    }
    return this.#encode(whole.slice(opened.length, end + this.closing.text.length));
  }

  /**
   * Ids between two assistant turns: the rest of the closed turn, the messages, and the opening of the next turn.
   *
   * @param before the messages of the first prompt
   * @param next what comes between, tool results as a rule
   * @param closed whether the turn already ended with the template's own closing token
   */
  delta(
    before: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    next: readonly ChatMessage[],
    closed: boolean,
  ): number[] {
    const after = this.#after(before, tools, next, true);
    return this.#encode(closed ? after.slice(this.closing.text.length) : after);
  }
}
