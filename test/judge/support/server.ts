/** A chat server on the loopback that answers as a test tells it to, and keeps what it was sent, byte by byte. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { endless } from "../../support/endless.js";

export interface Request {
  /** As it came. */
  readonly bytes: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: {
    model: string;
    messages: { role: string; content: string }[];
    response_format?: { type: string; json_schema?: { strict?: boolean; schema: unknown } };
    stream?: boolean;
    tools?: unknown[];
    seed?: number;
    reasoning_effort?: string;
    temperature?: number;
    max_tokens?: number;
    max_completion_tokens?: number;
  };
}

/** What one request gets. */
export type Reply =
  | { readonly json: unknown; readonly status?: number; readonly headers?: Record<string, string> }
  | { readonly hang: true }
  /** The connection ends in the middle of the body. */
  | { readonly cut: string }
  /** The text, then spaces until the client leaves. */
  | { readonly endless: string }
  | { readonly text: string | Buffer; readonly status?: number; readonly headers?: Record<string, string> };

export interface ChatServer {
  readonly url: string;
  readonly port: number;
  readonly requests: Request[];
  close(): Promise<void>;
}

async function bytesOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

function send(response: ServerResponse, reply: Reply): void {
  if ("hang" in reply) return;
  if ("cut" in reply) {
    response.writeHead(200, { "content-type": "application/json", "content-length": reply.cut.length + 100 });
    response.write(reply.cut);
    setTimeout(() => response.destroy(), 10);
    return;
  }
  if ("endless" in reply) {
    response.writeHead(200, { "content-type": "application/json" });
    void endless(response, reply.endless);
    return;
  }
  if ("text" in reply) {
    response.writeHead(reply.status ?? 200, reply.headers ?? { "content-type": "application/json" }).end(reply.text);
    return;
  }
  response.writeHead(reply.status ?? 200, { "content-type": "application/json", ...reply.headers });
  response.end(JSON.stringify(reply.json));
}

export async function startServer(
  answer: (request: Request, index: number) => Reply | Promise<Reply>,
  port = 0,
): Promise<ChatServer> {
  const requests: Request[] = [];
  const server = createServer(async (request, response) => {
    const bytes = await bytesOf(request);
    const received = { bytes, path: request.url ?? "", headers: request.headers, body: JSON.parse(bytes) };
    requests.push(received);
    send(response, await answer(received, requests.length - 1));
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const { port: at } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${at}/v1`,
    port: at,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** A completion as OpenAI sends it. */
export function completion(content: string | null, more: object = {}, usage: object | null = null): Reply {
  return {
    json: {
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1_700_000_000,
      model: "judge",
      choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content, refusal: null, ...more } }],
      usage: usage ?? { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 },
    },
  };
}

/** The blocks of a RULER question, by id. */
export function blocksOf(request: Request): Map<string, string> {
  const content = request.body.messages.map((message) => message.content).join("\n");
  const blocks = content.matchAll(/^<trajectory id="(\d+)">\n([\s\S]*?)\n<\/trajectory>$/gm);
  return new Map([...blocks].map(([, id = "", body = ""]) => [id, body]));
}

export type Entry = { trajectory_id: unknown; explanation: unknown; score: unknown };

export const scoresText = (entries: readonly Entry[]) => JSON.stringify({ scores: entries });

/** What an honest judge says of a question: the number in each rollout's last message is its score. */
export function honest(request: Request): Entry[] {
  return [...blocksOf(request)].map(([id, body]) => {
    const score = Number(/quality ([\d.]+)/.exec(body)?.[1] ?? "0");
    return { trajectory_id: id, explanation: `quality ${score}`, score };
  });
}
