/**
 * The conversation format of the engine's model: its chat template, the format of its tool calls, and the marks of its
 * thoughts. All come from the template; the user may name the format and set the template's variables.
 */
import type { Engine } from "../core/engine/engine.js";
import type { ChatSettings, ConversationFormat, ToolFormat } from "../core/rollout/conversation.js";
import { marksOf, splitThoughts, type ThoughtMarks } from "../core/rollout/thoughts.js";
import type { ChatMessage } from "../core/task/task.js";
import { HoneError, UsageError } from "../core/util/errors.js";
import { nearest } from "../core/util/nearest.js";
import { hone } from "../core/util/program.js";
import { formatAsked, formatNamed, formatNames, formatOf } from "./formats/formats.js";
import { ChatTemplate, LOOK, QUESTION, UnusableTemplate } from "./template.js";

export interface Chat extends ConversationFormat {
  readonly template: ChatTemplate;
  /** A turn with one call as the template writes it; "" where it writes none. */
  readonly sample: string;
  /** Whether a prompt says what tools there are, by the template or in the system message; else the messages must. */
  readonly showsTools: boolean;
  /**
   * Writes calls where the template writes none, or in a form other than the one that was named. Undefined: the template
   * does so itself.
   */
  readonly write: ToolFormat["write"] | undefined;
  /** The same format with other values of the template's variables. @throws UsageError for variables that it has not */
  with(args: Readonly<Record<string, unknown>>): Chat;
}

/** Variables that hone sets itself. */
const own = ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token"];

function checkArgs(args: Readonly<Record<string, unknown>>, template: string, model: string): void {
  const words = new Set(template.match(/\b[a-zA-Z_]\w*\b/g));
  for (const name of Object.keys(args)) {
    if (own.includes(name)) throw new UsageError(`--template-arg ${name}: hone sets this variable itself`);
    if (words.has(name)) continue;
    // Shorter names are keywords of the template language.
    const close = nearest(
      name,
      [...words].filter((word) => word.length > 4),
    );
    const hint = close ? `; did you mean ${close}?` : "";
    throw new UsageError(`--template-arg ${name}: the chat template of ${model} has no such variable${hint}`);
  }
}

/** Whether a prompt ends inside the model's thoughts. */
const opensThoughts = (template: ChatTemplate, marks: ThoughtMarks | undefined): marks is ThoughtMarks =>
  marks !== undefined && template.opening.trimEnd().endsWith(marks.open);

/** A turn with one call as the template writes it, without thoughts; "" where it writes none. */
function sampleOf(template: ChatTemplate, marks: ThoughtMarks | undefined): string {
  const { name } = LOOK.function;
  const call: ChatMessage = { role: "assistant", content: "", tool_calls: [{ name, arguments: { at: 1 } }] };
  try {
    const turn = template.turnText([QUESTION], [LOOK], call);
    // A prompt that opens thoughts may be followed by their end.
    return splitThoughts(turn, marks, opensThoughts(template, marks) && turn.includes(marks.close)).said;
  } catch (error) {
    if (error instanceof UnusableTemplate) throw error;
    // A template may refuse tools, or calls in the history. Its format is then unknown.
    return "";
  }
}

/** Whether the template's prompt lists tools. */
function showsTools(template: ChatTemplate): boolean {
  try {
    const [bare, listed] = [[], [LOOK]].map((tools) => template.promptText([QUESTION], tools)) as [string, string];
    return listed !== bare && listed.includes(LOOK.function.name);
  } catch (error) {
    if (error instanceof UnusableTemplate) throw error;
    // A template may refuse a conversation with tools, or one without: nothing is dropped silently.
    return true;
  }
}

/**
 * The conversation format of the engine's model.
 *
 * @throws HoneError when the model has no chat template, or one that cannot be used
 * @throws UsageError when the settings do not fit the template
 */
export function chatOf(engine: Engine, settings: ChatSettings = {}): Chat {
  const { chatTemplate, toolTemplate, model, bosText, eosText, controlTokens, addedTokens } = engine.info;
  const { toolFormat = "auto", templateArg: args = {}, maxThinkingTokens } = settings;
  if (chatTemplate === null) {
    throw new HoneError(`${model} has no chat template (tokenizer.chat_template); use the instruct form of the model`);
  }
  const sources = { chat: chatTemplate, tools: toolTemplate };
  const source = `${chatTemplate}\n${toolTemplate ?? ""}`;
  checkArgs(args, source, model);
  const marks = marksOf(source);
  if (maxThinkingTokens !== undefined && !marks) {
    throw new UsageError(
      `--max-thinking-tokens: the chat template of ${model} has no marks of thoughts (<think>); leave it out`,
    );
  }
  const tokenize = (text: string) => engine.tokenize(text, { special: false });
  const spaced = engine.detokenize(tokenize("x")) === " x";
  const named = toolFormat === "auto" ? undefined : formatNamed(toolFormat);
  const framing = [...addedTokens.keys()].filter((text) => source.includes(text) || named?.frames.includes(text));
  const tokenizer = { tokenize, controlTokens, framing, bosText, eosText, spaced };
  const bare = new ChatTemplate(sources, tokenizer, args);
  const written = sampleOf(bare, marks);
  const shown = showsTools(bare);
  const template = named && !shown ? new ChatTemplate(sources, tokenizer, args, named) : bare;
  const own = formatOf(written, LOOK.function);
  const format = named ?? own ?? formatAsked(toolTemplate ?? chatTemplate);
  const ends = (format?.ends ?? []).flatMap((text) => controlTokens.get(text) ?? []);
  return {
    template,
    format,
    sample: written,
    showsTools: shown || named !== undefined,
    write: format === own ? undefined : format?.write,
    marks,
    opened: opensThoughts(template, marks),
    maxThinkingTokens,
    closing: [template.closing.id, ...ends],
    with: (more) => chatOf(engine, { ...settings, templateArg: { ...args, ...more } }),
  };
}

/** @throws HoneError when there are tools and the model's call format is unknown */
export function requireFormat({ format }: Chat, tools: readonly unknown[], model: string): void {
  if (format || tools.length === 0) return;
  throw new HoneError(
    `the chat template of ${model} writes tool calls in no format that hone reads (${formatNames()}).\nName one with --tool-format, which the system prompt then explains beside the tools, or take another model`,
  );
}

/**
 * @param turn where the calls are, for the message
 * @throws HoneError when the template would drop calls that a model is to learn, and no format was named to write them in
 */
export function requireWriter({ sample: written, write }: Chat, model: string, turn: string): void {
  if (write || written.includes(LOOK.function.name)) return;
  throw new HoneError(
    `${turn} has tool calls, and the chat template of ${model} writes none: they would not be learnt.\nName the format to write them in with --tool-format (${formatNames()}), also for \`${hone("rollout")}\` and \`${hone("train")}\`, or take a model whose template has tools`,
  );
}

/** As {@link chatOf}, without the format and the thoughts. */
export const templateOf = (engine: Engine, settings?: ChatSettings): ChatTemplate => chatOf(engine, settings).template;
