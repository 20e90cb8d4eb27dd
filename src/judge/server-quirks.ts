/** One server's variant of the API: requests without the parameters it has refused, and the reading of its answers. */
import type OpenAI from "openai";
import { z } from "zod";
import { type Droppable, NoVerdict } from "./failures.js";
import type { AnswerForm } from "./form.js";

export interface JudgeMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface JudgeQuestion {
  readonly messages: readonly JudgeMessage[];
  /** Form of the answer, for servers that support a schema. */
  readonly form: AnswerForm;
}

export interface JudgeAnswer {
  readonly text: string;
  /** The server truncated it at a token limit. */
  readonly cut: boolean;
  /** Dollars; null where the price is not known. */
  readonly cost: number | null;
}

export interface ServerQuirksSettings {
  readonly model: string;
  /** Sent only when set: some models take none. */
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
  /** A judge that is held to every keyword of a schema, and the tokens of its answers at most. */
  readonly own?: { readonly answerTokens: number } | undefined;
  /** Reports each parameter that is no longer sent, and why. */
  readonly log: (text: string) => void;
}

export type ChatRequest = OpenAI.ChatCompletionCreateParamsNonStreaming;

/** How strictly the answer's form is requested. */
type Format = "json_schema" | "json_object" | "text";

export class ServerQuirks {
  readonly #settings: ServerQuirksSettings;
  readonly #dropped = new Set<Droppable>();
  #format: Format = "json_schema";
  /** Reasoning models use another name for it. */
  #tokenLimit: "max_tokens" | "max_completion_tokens" = "max_tokens";

  constructor(settings: ServerQuirksSettings) {
    this.#settings = settings;
  }

  request({ messages, form }: JudgeQuestion): ChatRequest {
    const { model, temperature, maxTokens, own } = this.#settings;
    const format = this.#format;
    const { name, within } = form;
    const schema = own ? within(own.answerTokens) : form.schema;
    return {
      model,
      messages: messages.map((message) => ({ ...message })),
      ...(temperature === undefined || this.#dropped.has("temperature") ? {} : { temperature }),
      ...(maxTokens === undefined || this.#dropped.has("max_tokens") ? {} : { [this.#tokenLimit]: maxTokens }),
      ...(format === "json_schema"
        ? { response_format: { type: format, json_schema: { name, schema, strict: true } } }
        : {}),
      ...(format === "json_object" ? { response_format: { type: format } } : {}),
    };
  }

  /** Stops sending the parameter that the server has refused in `request`, and reports why. */
  drop(parameter: Droppable, request: ChatRequest, why: string): void {
    const { log } = this.#settings;
    if (parameter === "response_format") {
      const refused = request.response_format?.type;
      // Another request may have found this out at the same time.
      if (refused !== this.#format) return;
      this.#format = refused === "json_schema" ? "json_object" : "text";
      const now = this.#format === "text" ? "plain text" : "JSON without a schema";
      log(`the judge does not take response_format ${refused} (${why}); asking for ${now} from now on`);
    } else if (parameter === "max_tokens" && /max_completion_tokens/.test(why) && this.#tokenLimit === "max_tokens") {
      this.#tokenLimit = "max_completion_tokens";
      log(`the judge does not take max_tokens (${why}); sending max_completion_tokens from now on`);
    } else if (!this.#dropped.has(parameter)) {
      this.#dropped.add(parameter);
      log(`the judge does not take ${parameter} (${why}); not sent from now on`);
    }
  }
}

/** The parameters of a request that can be left out. */
export function droppableIn(request: ChatRequest): ReadonlySet<Droppable> {
  const has = (...names: (keyof ChatRequest)[]) => names.some((name) => name in request);
  return new Set([
    ...(has("temperature") ? ["temperature" as const] : []),
    ...(has("max_tokens", "max_completion_tokens") ? ["max_tokens" as const] : []),
    ...(has("response_format") ? ["response_format" as const] : []),
  ]);
}

/** The fields of a chat completion that are read. */
export const completionSchema = z.object({
  choices: z
    .array(
      z.object({
        finish_reason: z.string().nullish(),
        message: z.object({ content: z.string().nullish(), refusal: z.string().nullish() }),
      }),
    )
    .min(1),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }).nullish(),
});

export type Completion = z.output<typeof completionSchema>;

/** @throws NoVerdict when the judge refuses */
export function answerIn({ choices }: Completion): Omit<JudgeAnswer, "cost"> {
  const [choice] = choices;
  const { content, refusal } = choice?.message ?? {};
  if (refusal || choice?.finish_reason === "content_filter") {
    throw new NoVerdict("refused", `the judge refuses: ${refusal ?? "its server filtered the answer"}`);
  }
  return { text: content ?? "", cut: choice?.finish_reason === "length" };
}
