/** A server that speaks OpenEnv's protocol, as its package does: count up to a number that the seed decides. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";

export type Fault = "none" | "dies" | "silent" | "no observation" | "raises" | "invalid" | "no reward";

export interface OpenEnvServer {
  readonly url: string;
  /** What it was sent by all sessions. */
  readonly messages: { readonly type: string; readonly data?: Record<string, unknown> }[];
  /** Sessions that are open. */
  sessions(): number;
  fault: Fault;
  close(): Promise<void>;
}

const COUNT = {
  title: "CountUpAction",
  description: "Say the next number.",
  type: "object",
  additionalProperties: false,
  properties: {
    metadata: { type: "object", additionalProperties: true },
    number: { type: "integer", description: "the next number" },
  },
  required: ["number"],
};
const TOOL = { ...COUNT, properties: { number: COUNT.properties.number } };
const CALLS = { title: "CallToolAction", type: "object", properties: { type: { const: "call_tool" } } };

export async function openEnvServer({
  most = 8,
  mcp = false,
  right: each = 0.5,
  title = COUNT.title,
} = {}): Promise<OpenEnvServer> {
  const messages: OpenEnvServer["messages"] = [];
  const open = new Set<WebSocket>();
  const http = createServer((request, response) => {
    const answers: Record<string, unknown> = {
      "/schema": { action: mcp ? CALLS : { ...COUNT, title }, observation: {}, state: {} },
      "/metadata": { name: "Count", description: "Count up to the number that you are told." },
      "/step": {
        observation: { tools: [{ name: "count.up", description: "Count.", input_schema: TOOL }] },
        done: false,
      },
    };
    const answer = answers[request.url ?? ""];
    response.writeHead(answer ? 200 : 404, { "content-type": "application/json" });
    response.end(JSON.stringify(answer ?? { detail: "Not Found" }));
  });
  const sockets = new WebSocketServer({ server: http, path: "/ws" });
  const server: OpenEnvServer = {
    url: "",
    messages,
    sessions: () => open.size,
    fault: "none",
    close: async () => {
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
      await new Promise((resolve) => http.close(resolve));
    },
  };
  sockets.on("connection", (socket) => {
    const send = (type: string, data: object) => socket.send(JSON.stringify({ type, data }));
    if (open.size >= most) {
      send("error", {
        message: "at capacity",
        code: "CAPACITY_REACHED",
        active_sessions: open.size,
        max_sessions: most,
      });
      socket.close();
      return;
    }
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    let goal = 0;
    let count = 0;
    socket.on("message", (text) => {
      const message = JSON.parse(String(text)) as { type: string; data?: Record<string, unknown> };
      messages.push(message);
      if (message.type === "close") return socket.close();
      if (message.type === "reset") {
        goal = 2 + (Number(message.data?.seed) % 2);
        return send("observation", { observation: { said: `Count to ${goal}.` }, reward: null, done: false });
      }
      if (server.fault === "dies") return socket.terminate();
      if (server.fault === "silent") return undefined;
      if (server.fault === "no observation") return send("observation", { done: false });
      if (server.fault === "raises") return send("error", { message: "the world broke", code: "EXECUTION_ERROR" });
      if (server.fault === "invalid") {
        const errors = [{ type: "string_type", loc: ["said"], msg: "Input should be a valid string" }];
        return send("error", { message: "Invalid message", code: "VALIDATION_ERROR", errors });
      }
      const { data = {} } = message;
      const { number } = (mcp ? data.arguments : data) as { number: number };
      if (number < 0) {
        const errors = [{ loc: ["number"], msg: "must not be negative" }];
        return send("error", { message: "Invalid message", code: "VALIDATION_ERROR", errors });
      }
      const right = number === count + 1;
      if (right) count++;
      const done = count === goal;
      const said = right ? "Right." : "Wrong.";
      const result = { content: [{ type: "text", text: said }], structured_content: null, is_error: false };
      const error = { error_type: "execution_error", message: "out of numbers" };
      const called = {
        metadata: {},
        tool_name: "count.up",
        ...(number > 99 ? { result: null, error } : { result, error: null }),
      };
      const reward = server.fault === "no reward" ? null : right ? each : done ? false : null;
      return send("observation", { observation: mcp ? called : { metadata: {}, said }, reward, done });
    });
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  return Object.assign(server, { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}` });
}
