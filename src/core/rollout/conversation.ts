/**
 * How a model converses: what a rollout needs of its chat template, its thoughts and the format of its tool calls. The room `chat`
 * makes it of a template.
 */
import type { Grammar } from "../engine/sequence.js";
import type { ChatMessage, ToolCall, ToolSchema } from "../task/task.js";
import type { ThoughtMarks } from "./thoughts.js";

export type WrittenCall =
  | { readonly kind: "call"; readonly call: ToolCall }
  | { readonly kind: "malformed"; readonly text: string; readonly reason: string; readonly id?: string };

export interface WrittenTurn {
  /** The text outside well-formed calls; malformed ones stay in it as written. */
  content: string;
  calls: WrittenCall[];
}

/** A tool that a model may call. */
export interface CallableTool {
  readonly name: string;
  /** Schema of the arguments; under a grammar as `WrittenCalls` takes it. */
  readonly parameters: object;
}

/** How calls are to be written under a grammar. */
export interface WrittenCalls {
  readonly tools: readonly CallableTool[];
  /** Whether a turn may have several. */
  readonly many: boolean;
  /** A turn with one call as the model's template writes it; "" where it writes none. */
  readonly sample: string;
  /** The name of the rule for the JSON texts of a schema, `tagless` without `</` in it. */
  json(schema: object, how?: "tagless"): string;
  /** The name of the rule for arguments as fields, in the order of the schema's properties. */
  fields(parameters: object, tag: FieldTag): string;
}

/** How arguments are written where each stands in tags, its value as text without JSON's quotes. */
export interface FieldTag {
  /** What stands before a name and behind it. */
  readonly open: readonly [before: string, behind: string];
  readonly close: string;
  /** What no value holds: it would end the field or its call. */
  readonly without: readonly string[];
}

/**
 * A tool-call format, the way a model writes its calls. It reads the model's text and never repairs it: malformed calls are
 * reported to the model.
 */
export interface ToolFormat {
  readonly name: string;
  /** Words by which a template asks for calls in this format that writes none itself, or none that can be read. */
  readonly asks?: string;
  /** Special tokens that end a turn besides the template's own closing token. */
  readonly ends: readonly string[];
  /** Texts that frame its calls. */
  readonly frames: readonly string[];
  /** A text at which a call may begin: what stands before the first of them is no call. Undefined: anywhere. */
  readonly begins?: readonly string[];
  /**
   * The marks with which calls begin, as those of a `Grammar`: every call that `read` finds begins with one of them, or
   * behind another call.
   */
  readonly marks: NonNullable<Grammar["marks"]>;
  /** Further marks `anywhere`, with which calls of a tool begin. */
  marksOf?(tool: string): readonly string[];
  /**
   * GBNF of one call or more, and nothing else; the rule `space` is a little white space. What it lets pass is what
   * `read` takes for well-formed calls of these tools.
   */
  grammar(calls: WrittenCalls): string;
  /**
   * Calls as `read` reads them, for a model whose template writes none.
   *
   * @param asText is given the JSON of each, in which special tokens are text
   */
  write(calls: readonly ToolCall[], asText: (json: string) => string): string;
  /**
   * The part of a system prompt that says what tools there are and how to call them, for a model whose template does not: in
   * the wording with which models of this format were trained.
   *
   * @param tools each as JSON, as transformers gives it to templates
   */
  describe(tools: readonly unknown[]): string;
  /**
   * Splits an assistant's text into its calls and the rest. Never throws.
   *
   * @param tools those that the turn may call, whose schemas give untyped values their types
   */
  read(text: string, tools: readonly CallableTool[]): WrittenTurn;
}

/** Plain data, so that it can be sent to workers. */
export interface ChatSettings {
  /** Default "auto": the format in which the template writes a call, or for which it asks where it writes none. */
  readonly toolFormat?: string;
  /** Variables of the template, such as `enable_thinking`. */
  readonly templateArg?: Readonly<Record<string, unknown>> | undefined;
  /** After this many tokens of a turn, unfinished thoughts are closed. */
  readonly maxThinkingTokens?: number | undefined;
}

/** The part of a configuration that concerns the conversation format. */
export const chatSettings = ({ toolFormat, templateArg, maxThinkingTokens }: ChatSettings): ChatSettings => ({
  ...(toolFormat === undefined ? {} : { toolFormat }),
  templateArg,
  maxThinkingTokens,
});

/** Options from which {@link chatSettings} are made. */
export const chatOptions = ["toolFormat", "templateArg", "maxThinkingTokens"] as const;

/** The model's chat template. */
export interface Template {
  /** Whether it writes ids of calls. */
  readonly usesIds: boolean;
  /** The token that closes a turn. */
  readonly closing: { readonly id: number };
  /**
   * What it adds after the assistant's turn: the end of that, the messages, and the start of the next turn.
   * @param closed whether the turn ended with the closing token
   */
  delta(
    before: readonly ChatMessage[],
    tools: readonly ToolSchema[],
    messages: readonly ChatMessage[],
    closed: boolean,
  ): number[];
  encode(text: string): number[];
}

/** The conversation format of a model that plays. */
export interface ConversationFormat {
  readonly template: Template;
  /** Undefined where the template has no known format and none was named. */
  readonly format: ToolFormat | undefined;
  readonly marks: ThoughtMarks | undefined;
  /** Whether a turn begins inside the model's thoughts because the prompt has opened them. */
  readonly opened: boolean;
  readonly maxThinkingTokens: number | undefined;
  /** Ids that end a turn completely: the template appends no closing token after them. */
  readonly closing: readonly number[];
}
