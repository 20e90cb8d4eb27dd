/** A chat server on loopback that plays examples/arithmetic.ts: it answers with the first number of the question, or stops. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface Behaviour {
  /** Rollouts that it answers; later ones are refused with this status. */
  readonly upTo?: number;
  readonly status?: number;
  /** Status of every request, also of that for its models. */
  readonly always?: number;
  /** Leaves conversations without an answer. */
  readonly hangs?: boolean;
  /** Leaves out how many tokens there were. */
  readonly unbilled?: boolean;
}

export async function chatServer(behaviour: Behaviour = {}) {
  const asked: { path: string; key: string | undefined; body: string }[] = [];
  let answered = 0;
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    asked.push({ path: request.url ?? "", key: request.headers.authorization, body });
    const say = (status: number, value: object) => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    };
    if (behaviour.always !== undefined) return say(behaviour.always, { error: { message: "no" } });
    if (request.url?.endsWith("/models")) return say(404, { error: { message: "no such list" } });
    if (behaviour.hangs) return undefined;
    if (answered >= (behaviour.upTo ?? Number.POSITIVE_INFINITY)) {
      return say(behaviour.status ?? 400, { error: { message: "out of credits" } });
    }
    answered++;
    const value = Number(/(\d+)/.exec(JSON.parse(body).messages.at(-1).content)?.[1] ?? 0);
    const call = { id: "1", type: "function", function: { name: "answer", arguments: JSON.stringify({ value }) } };
    const message = { role: "assistant", content: null, tool_calls: [call] };
    const usage = behaviour.unbilled ? {} : { usage: { prompt_tokens: 50, completion_tokens: 9 } };
    say(200, { choices: [{ index: 0, finish_reason: "tool_calls", message }], ...usage });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    chats: () => asked.filter(({ path }) => path.endsWith("/chat/completions")).length,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}
