/** Servers behind the proxy that the environment names. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it, vi } from "vitest";
import { completion, startServer } from "../judge/support/server.js";

const opened: { close(): unknown }[] = [];
afterEach(() => {
  vi.unstubAllEnvs();
  for (const one of opened.splice(0)) one.close();
});

function stubProxy(value: string): void {
  for (const name of ["HTTP_PROXY", "http_proxy"]) vi.stubEnv(name, value);
  for (const name of ["NO_PROXY", "no_proxy"]) vi.stubEnv(name, "");
}

/** With what a process does once done again: the environment is read then. */
async function freshly() {
  vi.resetModules();
  const { complete } = await import("../../src/serve/openai/completion.js");
  return (url: string) =>
    complete({ url, key: "sk-a" }, { model: "m", messages: [] }, new AbortController().signal).then(({ text }) => text);
}

it("are asked through it, and those on this machine are not", async () => {
  const asked: (string | undefined)[] = [];
  const proxy = createServer((request, response) => {
    asked.push(request.url);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify((completion("through the proxy") as { json: unknown }).json));
  });
  opened.push(proxy);
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  // As curl takes it.
  stubProxy(`127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  const ask = await freshly();
  expect(await ask("http://judge.corp.example/v1")).toBe("through the proxy");
  expect(asked).toEqual(["http://judge.corp.example/v1/chat/completions"]);

  const server = await startServer(() => completion("here"));
  opened.push(server);
  expect(await ask(server.url)).toBe("here");
  expect(await ask(server.url.replace("127.0.0.1", "localhost"))).toBe("here");
  expect(asked).toHaveLength(1);
});

it.each(["socks5://127.0.0.1:1080", "http://"])(
  "are not asked through %j: the variable is named, without its value",
  async (value) => {
    stubProxy(value);
    const ask = await freshly();
    const failure = await ask("http://judge.corp.example/v1").catch((error: Error) => error);
    expect(failure).toMatchObject({
      message: "http_proxy names no HTTP proxy; give it one like http://127.0.0.1:3128",
      kind: "refused",
    });
  },
);
