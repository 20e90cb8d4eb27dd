/**
 * One server's variant of the API, found out by experiment: a request that is refused is tried without one field after another,
 * first those that the refusal names, until it is answered. What had to be left out is left out for good; where nothing helps, the
 * fields are not at fault and all stay. No words decide, since servers and the proxies before them word refusals as they like.
 */
import { ChatError, causeOf, isTooLong } from "./failure.js";

export interface ChatMessage {
  readonly role: string;
  readonly content: string | null;
  readonly [field: string]: unknown;
}

/** What is asked. */
export interface ChatQuestion {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly object[];
  /** JSON Schema of the answer. */
  readonly form?: { readonly name: string; readonly schema: object } | undefined;
  readonly seed?: number;
}

export interface DialectSettings {
  readonly model: string;
  /** Sent only when set: some models take none. */
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
}

/** Fields in the order in which they are tried, each in its forms, the wanted one first. `named`: as errors name it. */
const FIELDS = {
  response_format: {
    forms: ["json_schema", "json_object", "none"],
    named: /response_?format|json_?(schema|object|mode)|structured|guided|grammar|schema/i,
  },
  temperature: { forms: ["sent", "none"], named: /temperature/i },
  max_tokens: {
    forms: ["max_tokens", "max_completion_tokens", "none"],
    named: /max_?((completion|output|new)_)?tokens/i,
  },
  seed: { forms: ["sent", "none"], named: /\bseed\b/i },
  // OpenAI's models that reason take tools in this API only where they are told not to.
  effort: { forms: ["none", "sent"], named: /reasoning_?effort/i },
  // Wanted back by some models that think (Kimi, DeepSeek), refused by others.
  thoughts: { forms: ["sent", "none"], named: /reasoning(?!_?effort)|thinking/i },
  stream: { forms: ["false", "none", "true with usage", "true"], named: /\bstream(ing)?\b/i },
  system: { forms: ["system", "user"], named: /\bsystem\b|\brole\b/i },
} as const;

type Field = keyof typeof FIELDS;
/** How far each field has been reduced. */
type Forms = Readonly<Record<Field, number>>;

const NAMES = Object.keys(FIELDS) as Field[];
const ALL_WANTED = Object.fromEntries(NAMES.map((name) => [name, 0])) as Forms;

/** Questions in a row that have to be answered without a field before one that others were answered with is left out. */
const IN_A_ROW = 3;
/** Failures of a server (5xx) of one question before its fields are suspected, where it names none. */
const FAILURES = 2;

/** Sends one request. @throws ChatError */
export type Send<A> = (body: object) => Promise<A>;

interface Step {
  readonly field: Field;
  /** What was said when the field was still there. */
  readonly refusal: ChatError;
  /** The field was named, and no longer once it was reduced. */
  readonly certain: boolean;
}

export class Dialect {
  readonly #settings: DialectSettings;
  readonly #note: (text: string) => void;
  #forms: Forms = ALL_WANTED;
  /** Fields that some answer was given with in their present form, and the questions since that had to do without. */
  readonly #answered = new Map<Field, number>();
  /** Refusals that no field was at fault for. */
  readonly #blameless = new Set<string>();
  /** One experiment at a time: requests that were under way with it know no more than it. */
  #experiment: Promise<unknown> = Promise.resolve();

  /** @param note tells the user, once, what is left out and why: "does not take temperature (...); ..." */
  constructor(settings: DialectSettings, note: (text: string) => void) {
    this.#settings = settings;
    this.#note = note;
  }

  /**
   * @param failed how often the same question has failed before
   * @throws ChatError where no form of the question is answered
   */
  async ask<A extends object>(question: ChatQuestion, send: Send<A>, failed = 0): Promise<A> {
    for (;;) {
      await this.#experiment;
      const forms = this.#forms;
      try {
        const answer = await send(this.#body(question, forms));
        if (forms === this.#forms) for (const field of this.#used(question, forms)) this.#answered.set(field, 0);
        return answer;
      } catch (error) {
        if (!(error instanceof ChatError && this.#mayBeFields(error, question, forms, failed))) throw error;
        const found = this.#experiment.then(async () => {
          // Another question has found out meanwhile.
          if (forms !== this.#forms) return undefined;
          return await this.#tryWithout(question, send, error, failed);
        });
        this.#experiment = found.catch(() => undefined);
        const answer = await found;
        if (answer) return answer;
      }
    }
  }

  /** Fields of the question that are sent, in some form. */
  #used({ messages, tools, form, seed }: ChatQuestion, forms: Forms): Field[] {
    const { temperature, maxTokens } = this.#settings;
    const wanted: Record<Field, boolean> = {
      response_format: form !== undefined,
      temperature: temperature !== undefined,
      max_tokens: maxTokens !== undefined,
      seed: seed !== undefined,
      effort: tools !== undefined && tools.length > 0,
      thoughts: messages.some((message) => message.thoughts !== undefined),
      stream: true,
      system: messages.some(({ role }) => role === "system"),
    };
    return NAMES.filter((name) => wanted[name] && forms[name] < FIELDS[name].forms.length - 1);
  }

  #body({ messages, tools, form, seed }: ChatQuestion, forms: Forms): object {
    const { model, temperature, maxTokens } = this.#settings;
    const format = FIELDS.response_format.forms[forms.response_format];
    const limit = FIELDS.max_tokens.forms[forms.max_tokens];
    const stream = FIELDS.stream.forms[forms.stream];
    const plain = messages.map(({ thoughts, ...message }) => ({
      ...message,
      ...(forms.thoughts === 0 ? (thoughts as object) : {}),
    }));
    return {
      model,
      messages: forms.system === 0 ? plain : withoutSystem(plain),
      // Servers refuse an empty list.
      ...(tools && tools.length > 0 ? { tools } : {}),
      ...(temperature !== undefined && forms.temperature === 0 ? { temperature } : {}),
      ...(maxTokens !== undefined && limit !== "none" ? { [limit as string]: maxTokens } : {}),
      ...(seed !== undefined && forms.seed === 0 ? { seed } : {}),
      ...(form && format === "json_schema"
        ? { response_format: { type: format, json_schema: { ...form, strict: true } } }
        : {}),
      ...(form && format === "json_object" ? { response_format: { type: format } } : {}),
      ...(tools && tools.length > 0 && forms.effort > 0 ? { reasoning_effort: "none" } : {}),
      ...(stream === "none" ? {} : { stream: stream !== "false" }),
      ...(stream === "true with usage" ? { stream_options: { include_usage: true } } : {}),
    };
  }

  /** Those of the question's fields that a refusal can be about. */
  #suspects(error: ChatError, question: ChatQuestion, forms: Forms): Field[] {
    const used = this.#used(question, forms);
    // A question that is too long may fit with less room for its answer.
    return isTooLong(error) ? used.filter((name) => name === "max_tokens") : used;
  }

  #named({ param, codes, text }: ChatError, fields: readonly Field[]): Field | undefined {
    const at = (said: string, name: Field) => {
      const found = said.search(FIELDS[name].named);
      return found < 0 ? Number.POSITIVE_INFINITY : found;
    };
    for (const said of [param, text, codes]) {
      const [first] = [...fields].sort((a, b) => at(said, a) - at(said, b));
      if (first && Number.isFinite(at(said, first))) return first;
    }
    return undefined;
  }

  #mayBeFields(error: ChatError, question: ChatQuestion, forms: Forms, failed: number): boolean {
    const cause = causeOf(error);
    if (this.#blameless.has(error.likeness)) return false;
    const suspects = this.#suspects(error, question, forms);
    if (suspects.length === 0) return false;
    if (cause === "refused" || cause === "too_long") return true;
    // Most failures of a server pass; some mean a field.
    return (
      cause === "broken" &&
      error.kind === "refused" &&
      (failed >= FAILURES || this.#named(error, suspects) !== undefined)
    );
  }

  /** @returns the answer, after what it took to get it has been kept */
  async #tryWithout<A extends object>(
    question: ChatQuestion,
    send: Send<A>,
    first: ChatError,
    failed: number,
  ): Promise<A> {
    const start = this.#forms;
    const steps: Step[] = [];
    let forms = start;
    let refusal = first;
    let answer: A | undefined;
    /** A refusal as a value; what says nothing of the fields ends the experiment. */
    const tried = async (changed: Forms): Promise<A | ChatError> => {
      try {
        return await send(this.#body(question, changed));
      } catch (error) {
        if (!(error instanceof ChatError)) throw error;
        const cause = causeOf(error);
        const telling =
          cause === "broken" && error.kind === "refused" && (failed >= FAILURES || causeOf(first) === "broken");
        if (telling || ["refused", "too_long", "filtered"].includes(cause)) return error;
        if (this.#named(error, this.#used(question, changed)) !== undefined && cause === "broken") return error;
        throw error;
      }
    };
    const present = this.#suspects(first, question, start);
    if (this.#named(first, present) === undefined && present.every((field) => this.#answered.has(field))) {
      // All of it was taken before: a refusal that names no field may pass, of many questions in one moment.
      const again = await tried(start);
      if (!(again instanceof ChatError)) return again;
      refusal = again;
    }
    while (!answer) {
      const suspects = this.#suspects(refusal, question, forms);
      const named = this.#named(refusal, suspects);
      const field = named ?? suspects[0];
      if (field === undefined) {
        this.#blameless.add(first.likeness);
        throw first;
      }
      forms = { ...forms, [field]: forms[field] + 1 };
      const result = await tried(forms);
      const next = result instanceof ChatError ? result : undefined;
      // What is no refusal in form may have passed by itself.
      const passed = next === undefined && (named !== undefined || (refusal.status >= 400 && refusal.status < 500));
      const certain = passed || (named !== undefined && next !== undefined && this.#named(next, [field]) === undefined);
      steps.push({ field, refusal, certain });
      if (next) refusal = next;
      else answer = result as A;
    }
    return await this.#keep({ start, forms, steps, answer }, tried);
  }

  /** Puts back what was not at fault, and keeps the rest. */
  async #keep<A extends object>(
    { start, forms, steps, answer }: { start: Forms; forms: Forms; steps: readonly Step[]; answer: A },
    tried: (forms: Forms) => Promise<A | ChatError>,
  ): Promise<A> {
    const reasons = new Map(steps.toReversed().map(({ field, refusal }) => [field, refusal]));
    const last = new Map(steps.map((step) => [step.field, step]));
    const doubtful = [...last.values()].filter(({ certain }) => !certain).map(({ field }) => field);
    let kept = forms;
    let best = answer;
    for (const field of doubtful) {
      for (let form = start[field]; form < kept[field]; form++) {
        // The question is answered: whatever else goes wrong, the next one meets it too.
        const result = await tried({ ...kept, [field]: form }).catch(() => undefined);
        if (result instanceof ChatError) reasons.set(field, result);
        else kept = { ...kept, [field]: result ? form : start[field] };
        best = result && !(result instanceof ChatError) ? result : best;
      }
    }
    for (const field of [...last.keys()].filter((name) => kept[name] !== start[name])) {
      const without = (this.#answered.get(field) ?? IN_A_ROW - 1) + 1;
      if (without < IN_A_ROW) {
        // It has been taken before, so that this may be the question's own.
        this.#answered.set(field, without);
        kept = { ...kept, [field]: start[field] };
        continue;
      }
      this.#answered.delete(field);
      this.#note(noteOf(field, start[field], kept[field], (reasons.get(field) as ChatError).message));
    }
    if (NAMES.some((name) => kept[name] !== start[name])) this.#forms = kept;
    return best;
  }
}

/** The rules of the system before the user's first words. */
function withoutSystem(messages: readonly ChatMessage[]): ChatMessage[] {
  const rules = messages.flatMap(({ role, content }) => (role === "system" && content ? [content] : []));
  const rest = messages.filter(({ role }) => role !== "system");
  const at = rest.findIndex(({ role }) => role === "user");
  if (at < 0) return [{ role: "user", content: rules.join("\n\n") }, ...rest];
  return rest.map((message, i) =>
    i === at ? { ...message, content: [...rules, message.content].join("\n\n") } : message,
  );
}

function noteOf(field: Field, from: number, to: number, why: string): string {
  const { forms } = FIELDS[field];
  const now = forms[to] as string;
  const refused = forms.slice(from, to).join(" and ");
  const texts: Record<Field, readonly [what: string, instead: string]> = {
    response_format: [
      `response_format ${refused}`,
      now === "none" ? "asking for plain text from now on" : "asking for JSON without a schema from now on",
    ],
    max_tokens: [refused, now === "none" ? "not sent from now on" : `sending ${now} from now on`],
    temperature: ["temperature", "not sent from now on"],
    seed: ["seed", "not sent from now on"],
    effort: ["tools with reasoning", 'sending reasoning_effort "none" from now on'],
    thoughts: ["its own thoughts", "not sent back from now on"],
    stream: ["stream: false", now === "none" ? "not sent from now on" : "reading streams from now on"],
    system: ["messages of the system", "putting them before the user's from now on"],
  };
  const [what, instead] = texts[field];
  return `does not take ${what} (${why}); ${instead}`;
}
