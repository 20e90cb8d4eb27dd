/** A language model of the AI SDK (its LanguageModelV3) over a {@link Source} of turns. */
import type {
  LanguageModelV3,
  LanguageModelV3Content,
  LanguageModelV3FinishReason,
  LanguageModelV3StreamPart,
  LanguageModelV3Usage,
} from "@ai-sdk/provider";
import type { Said, Source } from "./source.js";

function finishOf({ stop, calls }: Said): LanguageModelV3FinishReason {
  if (stop !== "stop") return { unified: "length", raw: stop };
  return { unified: calls.length > 0 ? "tool-calls" : "stop", raw: stop };
}

const usageOf = ({ usage: { prompt, cached, sampled } }: Said): LanguageModelV3Usage => ({
  inputTokens: { total: prompt, noCache: prompt - cached, cacheRead: cached, cacheWrite: undefined },
  outputTokens: { total: sampled, text: undefined, reasoning: undefined },
});

const callsOf = ({ calls }: Said) =>
  calls.map(({ id, name, arguments: input }) => ({
    type: "tool-call" as const,
    toolCallId: id,
    toolName: name,
    input,
  }));

/** The parts of a turn that is sampled, each begun and ended around its pieces. */
class Parts {
  #open: "text" | "reasoning" | undefined;
  #number = 0;
  readonly #send: (part: LanguageModelV3StreamPart) => void;

  constructor(send: (part: LanguageModelV3StreamPart) => void) {
    this.#send = send;
  }

  push(kind: "text" | "reasoning", delta: string | undefined): void {
    if (!delta) return;
    if (this.#open !== kind) {
      this.close();
      this.#open = kind;
      this.#send({ type: `${kind}-start`, id: String(++this.#number) });
    }
    this.#send({ type: `${kind}-delta`, id: String(this.#number), delta });
  }

  close(): void {
    if (this.#open) this.#send({ type: `${this.#open}-end`, id: String(this.#number) });
    this.#open = undefined;
  }
}

export function languageModel(source: Source): LanguageModelV3 {
  const response = () => ({ timestamp: new Date(), modelId: source.name });

  return {
    specificationVersion: "v3",
    provider: "hone",
    modelId: source.name,
    supportedUrls: {},

    async doGenerate(options) {
      const turn = await source.begin(options);
      turn.admit();
      const said = await turn.sample();
      const content: LanguageModelV3Content[] = [
        ...(said.reasoning ? [{ type: "reasoning" as const, text: said.reasoning }] : []),
        ...(said.text ? [{ type: "text" as const, text: said.text }] : []),
        ...callsOf(said),
      ];
      return {
        content,
        finishReason: finishOf(said),
        usage: usageOf(said),
        warnings: [...turn.warnings],
        response: response(),
        providerMetadata: { hone: { ...said.about } },
      };
    },

    async doStream(options) {
      const turn = await source.begin(options);
      const gone = new AbortController();
      turn.admit();
      const stream = new ReadableStream<LanguageModelV3StreamPart>({
        async start(controller) {
          const send = (part: LanguageModelV3StreamPart) => {
            if (!gone.signal.aborted) controller.enqueue(part);
          };
          const parts = new Parts(send);
          send({ type: "stream-start", warnings: [...turn.warnings] });
          send({ type: "response-metadata", ...response() });
          try {
            const said = await turn.sample(({ content, reasoning_content: reasoning }) => {
              parts.push("reasoning", reasoning);
              parts.push("text", content);
            }, gone.signal);
            parts.close();
            callsOf(said).forEach(send);
            const finishReason = finishOf(said);
            send({ type: "finish", finishReason, usage: usageOf(said), providerMetadata: { hone: { ...said.about } } });
          } catch (error) {
            parts.close();
            send({ type: "error", error });
          }
          if (!gone.signal.aborted) controller.close();
        },
        cancel: () => gone.abort(new Error("the stream was cancelled")),
      });
      return { stream };
    },
  };
}
