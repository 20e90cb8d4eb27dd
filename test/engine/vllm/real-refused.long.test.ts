/** Real vLLM servers that are set up otherwise than docs/vllm.md says: each is refused, or found as it happens, in one line. */
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../../bench/models.js";
import type { VllmOptions } from "../../../src/core/engine/engine.js";
import { loadEngine } from "../../../src/engine/factory.js";
import { freePort } from "../../support/free-port.js";
import { type Flags, type Otherwise, prepareVllm, type Server, startServer, type Vllm } from "./real-server.js";
import { CONTEXT, newFolder, vllmOptions, writeAdapter } from "./support.js";

const home = newFolder();
let vllm: Vllm;
/** Set up as it should be, but for its working folder. */
let right: Server;

beforeAll(async () => {
  await ensureTestModels(["tiny"], () => undefined);
  vllm = await prepareVllm(home);
  const cwd = join(home, "elsewhere");
  mkdirSync(cwd);
  right = await startServer(vllm, await freePort(), { cwd });
}, 1_800_000);
afterAll(() => right.kill());

const open = (urls: readonly string[], more: Partial<VllmOptions> = {}, log: string[] = []) =>
  loadEngine(vllmOptions([], { urls, ...more }), (line) => log.push(line));

/** The refusal's line, without the server's address. */
async function refusal(urls: readonly string[], more: Partial<VllmOptions> = {}): Promise<string> {
  const outcome = await open(urls, more).catch((error: Error) => error);
  if (!(outcome instanceof Error)) {
    await outcome.close();
    return "it was not refused";
  }
  expect(outcome.message).not.toContain("\n");
  const named = `the vLLM server at ${urls.at(-1)}: `;
  expect(outcome.message).toContain(named);
  return outcome.message.slice(named.length);
}

interface Asked {
  model?: string;
}

/** Answers with what a server answers, each connection with another one's, after a change of what it is asked. */
async function between(urls: readonly string[], change: (asked: Asked) => void = () => undefined) {
  const connections = new Map<unknown, number>();
  const proxy = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { url: path = "/", method = "GET" } = request;
    const asked = parts.length === 0 ? undefined : (JSON.parse(Buffer.concat(parts).toString()) as Asked);
    if (asked && path === "/v1/completions") change(asked);
    const headers = { "content-type": "application/json" };
    const url = urls[(connections.get(request.socket) as number) % urls.length];
    const answer = await fetch(`${url}${path}`, {
      ...{ method, headers },
      ...(asked ? { body: JSON.stringify(asked) } : {}),
    });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "text/plain" });
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  proxy.on("connection", (socket) => connections.set(socket, connections.size));
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const { port } = proxy.address() as AddressInfo;
  const close = () => {
    proxy.closeAllConnections();
    return new Promise((resolve) => proxy.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}`, close };
}

describe("what a run asks of a server that is set up for another", () => {
  it.each<[string, Partial<VllmOptions>, string]>([
    ["a longer context", { contextPerSequence: CONTEXT + 1 }, `start it with --max-model-len ${CONTEXT + 2}`],
    [
      "a higher rank",
      { adapterRank: 32 },
      "it takes adapters up to rank 16, and these have rank 32: start it with a larger --max-lora-rank",
    ],
    ["another model", { model: modelPath("qwen2-tiny-f16.gguf") }, "start it with that model"],
    // Under this path each process sees a folder of its own.
    ["a folder that it does not see", { adapters: "/proc/self/cwd/build/unseen" }, "does not see the adapters' folder"],
  ])("%s", async (_, more, line) => {
    expect(await refusal([right.url], more)).toContain(line);
  });

  it("is taken where it fits", async () => {
    await (await open([right.url], { adapterRank: 16 })).close();
  });
});

describe("a server that is set up otherwise", () => {
  const flags =
    (one: Flags): (() => Otherwise) =>
    () => ({ flags: one });

  it.each<[string, () => Otherwise, string]>([
    [
      "log-probabilities before the temperature",
      flags({ "--logprobs-mode": "raw_logprobs" }),
      "start it with --logprobs-mode processed_logprobs",
    ],
    ["one adapter at a time", flags({ "--max-loras": "1" }), "start it with --max-loras 2"],
    [
      "no adapters",
      flags({ "--enable-lora": null, "--max-loras": null, "--max-lora-rank": null }),
      "start it with --enable-lora",
    ],
    [
      "no adapters at run time",
      () => ({ environment: { VLLM_ALLOW_RUNTIME_LORA_UPDATING: "0" } }),
      "start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
    ],
    [
      "several API servers, for which vLLM has no adapters at run time",
      () => ({ flags: { "--api-server-count": "2" }, environment: { VLLM_ALLOW_RUNTIME_LORA_UPDATING: "0" } }),
      "start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
    ],
    [
      "sampling settings of the model",
      () => {
        const folder = join(home, "with-settings");
        cpSync(vllm.folder, folder, { recursive: true });
        writeFileSync(join(folder, "generation_config.json"), JSON.stringify({ temperature: 0.5, top_k: 20 }));
        return { folder, flags: { "--generation-config": "auto" } };
      },
      "start it with --generation-config vllm",
    ],
    [
      "another type than the first server's",
      flags({ "--dtype": "bfloat16" }),
      "it keeps adapters in BF16, and others do in F32: start all of them with one --dtype",
    ],
  ])("%s", async (_, otherwise, line) => {
    const server = await startServer(vllm, await freePort(), otherwise());
    try {
      expect(await refusal([right.url, server.url])).toContain(line);
    } finally {
      await server.kill();
    }
  });
});

it("two servers behind one address are refused as several API servers", async () => {
  const second = await startServer(vllm, await freePort());
  const both = await between([second.url, right.url]);
  try {
    expect(await refusal([right.url, both.url])).toContain("it has more than one API server");
  } finally {
    await both.close();
    await second.kill();
  }
});

describe("a server that plays another policy than it is asked for", () => {
  it("the base model under every name", async () => {
    const proxy = await between([right.url], (asked) => {
      asked.model = "base";
    });
    expect(await refusal([right.url, proxy.url])).toContain(
      "it answers with the base model when it is asked for an adapter",
    );
    await proxy.close();
  });

  it("the base model from the second adapter on, or the first adapter in place of the second", async () => {
    for (const [instead, line] of [
      ["base", "answers with the base model where it is asked for the adapter"],
      ["first", "answers with another adapter than the others"],
    ] as const) {
      const names: string[] = [];
      let wrong = false;
      const proxy = await between([right.url], (asked) => {
        if (!wrong || !asked.model?.startsWith("hone-")) return;
        asked.model = instead === "base" ? "base" : (names[0] as string);
      });
      const engine = await open([right.url, proxy.url]);
      await engine.useAdapter(await writeAdapter("first"));
      const served = (await (await fetch(`${right.url}/v1/models`)).json()) as { data: { id: string }[] };
      names.push(...served.data.map(({ id }) => id).filter((id) => id.startsWith("hone-")));
      expect(names).toEqual([expect.stringMatching(/^hone-/)]);
      wrong = true;
      const outcome = await engine.useAdapter(await writeAdapter("second")).catch((error: Error) => error.message);
      expect(outcome).toContain(`the vLLM server at ${proxy.url} ${line}`);
      await engine.close();
      await proxy.close();
    }
  });
});
