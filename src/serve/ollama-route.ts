/** `POST /api/chat` and `GET /api/tags`: what clients of Ollama ask for. */
import { statSync } from "node:fs";
import { allOf } from "./answers.js";
import type { ErrorForm } from "./errors.js";
import type { Exchange } from "./exchange.js";
import type { Answer, ServedModel } from "./model.js";
import { chatOfOllama, type OllamaRequest } from "./ollama-request.js";
import { prepareTurns } from "./turns.js";

export const ollamaErrors: ErrorForm = {
  body: ({ message }) => ({ error: message }),
  event: "lines",
};

/** Ollama names a version behind a colon. */
export const withoutTag = (name: string) => name.replace(/:latest$/, "");

/** A number of parameters as Ollama writes it: 4.2M, 1.5B. */
const sizeOf = (parameters: number) =>
  parameters < 1e9 ? `${(parameters / 1e6).toFixed(1)}M` : `${(parameters / 1e9).toFixed(1)}B`;

export function ollamaTags(models: readonly ServedModel[], exchange: Exchange): void {
  exchange.json({
    models: models.flatMap(({ names, engine: { info } }) => {
      const { size, mtime } = statSync(info.model);
      const details = {
        ...{ format: "gguf", family: info.architecture, families: [info.architecture] },
        parameter_size: sizeOf(info.parameters),
        quantization_level: info.weightType,
      };
      return names.map((name) => ({ name, model: name, modified_at: mtime.toISOString(), size, details }));
    }),
  });
}

export async function ollamaChat(model: ServedModel, request: OllamaRequest, exchange: Exchange): Promise<void> {
  const started = performance.now();
  const turns = await prepareTurns(model, chatOfOllama(request, model), exchange.signal);
  const line = (message: object, more: object) => ({
    ...{ model: request.model, created_at: new Date().toISOString() },
    message: { role: "assistant", content: "", ...message },
    ...more,
  });
  const callsOf = ({ calls }: Answer) =>
    calls.map(({ id, name, arguments: args }) => ({ id, function: { name, arguments: args } }));
  const done = (answer: Answer) => ({
    done: true,
    done_reason: answer.stop === "stop" ? "stop" : "length",
    total_duration: Math.round((performance.now() - started) * 1e6),
    prompt_eval_count: turns.conversation.length,
    eval_count: answer.segment.ids.length,
    hone: turns.hone,
  });

  if (request.stream === false) {
    const [answer] = (await allOf(1, model, exchange.signal, (index, signal) => turns.sample(index, signal))) as [
      Answer,
    ];
    const thinking = turns.reasoningOf(answer);
    const calls = callsOf(answer);
    const message = {
      content: answer.read.said,
      ...(thinking ? { thinking } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    };
    exchange.json(line(message, done(answer)));
    return;
  }
  await allOf(1, model, exchange.signal, async (index, signal) => {
    const answer = await turns.sample(index, signal, ({ content = "", reasoning_content: thinking }) =>
      exchange.line(line({ content, ...(thinking ? { thinking } : {}) }, { done: false })),
    );
    const calls = callsOf(answer);
    if (calls.length > 0) exchange.line(line({ tool_calls: calls }, { done: false }));
    exchange.line(line({}, done(answer)));
  });
  exchange.end(false);
}
