/** Turns of a model of `hone serve`, by its /v1/chat/completions. */
import { eventsOf } from "../../serve/openai/events.js";
import { ChatError } from "../../serve/openai/failure.js";
import type { ChatServer } from "../../serve/openai/server.js";
import type { Answered, Source } from "./source.js";

/** @param server its URL with /v1 */
export function overHttp(server: ChatServer, name: string): Source {
  return {
    name,
    url: `${server.url}/chat/completions`,
    async *ask(body, signal) {
      // With its client for HTTP, which a program that imports hone need not load.
      const { request, textOf } = await import("../../serve/openai/http.js");
      const response = await request(server, "chat/completions", { body, signal });
      if (!body.stream) {
        yield JSON.parse(await textOf(response, server, signal)) as Answered;
        return;
      }
      for await (const data of eventsOf(response)) {
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data) as Answered & { readonly error?: { readonly message?: string } };
        const { error } = chunk;
        if (error) throw new ChatError({ kind: "refused", status: 0, text: error.message ?? data, body: error });
        yield chunk;
      }
    },
  };
}
