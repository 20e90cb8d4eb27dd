/** A server of the tiny model in this process, and clients of it. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { chatOf } from "../../src/chat/chat.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadEngine } from "../../src/engine/factory.js";
import type { LocalFetch } from "../../src/serve/local-fetch.js";
import { ServedModel } from "../../src/serve/model.js";
import { openEndpoint } from "../../src/serve/server.js";
import { afterFile } from "../support/after-file.js";
import { writeF32Copy } from "../support/f32-model.js";

export const TINY = join(packageRoot, "models/tiny/tiny.gguf");

const folder = mkdtempSync(join(tmpdir(), "hone-serve-"));
const closing: (() => Promise<void>)[] = [];
afterFile(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

let copy: Promise<string> | undefined;

/** The tiny model with weights by which two draws of one seed are the same, whatever else is in their batches. */
function steadyTiny(): Promise<string> {
  const to = join(folder, "tiny-f32.gguf");
  copy ??= writeF32Copy(TINY, to).then(() => to);
  return copy;
}

export interface Server {
  readonly client: OpenAI;
  readonly url: string;
  readonly engine: LocalEngine;
  readonly model: ServedModel;
  /** As `fetch`, without a connection. */
  readonly local: LocalFetch;
  close(grace?: number): Promise<void>;
}

let engines = 0;

export async function serveTiny(
  more: {
    sequences?: number;
    context?: number;
    apiKey?: string;
    bounds?: { tokens: number; points: number };
    /** Another model's GGUF file, which is served by the same name. */
    file?: string;
  } = {},
): Promise<Server> {
  const { sequences = 4, context = 1024, apiKey, bounds, file } = more;
  const engine = await loadEngine({
    model: file ?? (await steadyTiny()),
    name: `serve-${engines++}`,
    gpu: false,
    threads: 1,
    lanes: 1,
    sequences,
    contextPerSequence: context,
  });
  const model = new ServedModel(["tiny"], engine, chatOf(engine), bounds);
  const endpoint = await openEndpoint({ port: 0, apiKey, models: [model] });
  let closed = false;
  const close = async (grace = 0) => {
    if (closed) return;
    closed = true;
    await endpoint.close(grace);
    await engine.close();
  };
  closing.push(close);
  const client = new OpenAI({ baseURL: endpoint.url, apiKey: apiKey ?? "none", maxRetries: 0, timeout: 600_000 });
  return { client, url: endpoint.url, engine, model, local: endpoint.fetch, close };
}

/** An answer with what hone adds to it. */
export type Extended<T> = T & {
  readonly hone: {
    readonly continued: boolean;
    readonly history_rewritten: number;
    readonly seed: number;
    readonly not_enforced?: readonly string[];
  };
  readonly prompt_token_ids?: number[];
};

/** Asks with options that the client's types do not know. */
export function ask(
  client: OpenAI,
  body: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> & Record<string, unknown>,
): Promise<Extended<OpenAI.ChatCompletion>> {
  const request = { model: "tiny", messages: [], ...body } as OpenAI.ChatCompletionCreateParamsNonStreaming;
  return client.chat.completions.create(request) as unknown as Promise<Extended<OpenAI.ChatCompletion>>;
}

export const tool = (name: string, parameters: Record<string, unknown> = { type: "object", properties: {} }) => ({
  type: "function" as const,
  function: { name, description: `The tool ${name}.`, parameters },
});

/** The request that a turn of a weather agent makes of a served model. */
export const idsOfChoice = (choice: unknown) => (choice as { token_ids: number[] }).token_ids;
