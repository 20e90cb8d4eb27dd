/** Answers of vLLM servers that cannot be are refused in a line: nothing of them is trained. */
import { createServer } from "node:http";
import { type AddressInfo, createServer as createPlain } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { HoneError } from "../../../src/core/util/errors.js";
import { HttpClient } from "../../../src/engine/http.js";
import { AdapterFolder } from "../../../src/engine/vllm/adapters.js";
import { Board } from "../../../src/engine/vllm/board.js";
import type { Expected } from "../../../src/engine/vllm/checks.js";
import { Fleet } from "../../../src/engine/vllm/fleet.js";
import { type Asked, complete, models, ServerLost, score, tokenized } from "../../../src/engine/vllm/protocol.js";
import { Group, type Servers, VllmSequence } from "../../../src/engine/vllm/sequence.js";
import { newFolder } from "./support.js";

/** The text of the next answer, and its status. */
let said = "";
let status = 200;
const server = createServer((request, response) => {
  request.resume().once("end", () => response.writeHead(status).end(said));
});
let client: HttpClient;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  client = new HttpClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
afterAll(() => {
  client.close();
  server.close();
});

const asked: Asked = {
  ...{ model: "base", prompt: [1, 2, 3], salt: "", maxTokens: 4, stop: [9], vocabularySize: 100 },
  sampling: { seed: 1 },
};
const answer = (tokens: unknown, logprobs: unknown, more: object = {}) =>
  JSON.stringify({ choices: [{ token_ids: tokens, logprobs: { token_logprobs: logprobs }, ...more }] });

it("a turn that can be is taken as it is", async () => {
  said = answer([5, 9], [-1, 1e-7], { finish_reason: "stop", prompt_token_ids: [1, 2, 3] });
  expect(await complete(client, asked)).toEqual({ tokens: [5, 9], logprobs: [-1, 1e-7], prompt: [1, 2, 3] });
});

const many = Array.from({ length: 300_000 }, () => 5);

it.each([
  [
    "more tokens than were asked for",
    answer([1, 2, 3, 4, 5], [-1, -1, -1, -1, -1]),
    "5 sampled tokens, where 4 at most",
  ],
  ["a token beyond the vocabulary", answer([5, 100], [-1, -1]), "the token 100, of a model with 100"],
  ["a token beyond 32 bits", answer([2 ** 40], [-1]), "the token 1099511627776"],
  ["a negative token", answer([-1], [-1]), "cannot be read"],
  ["half a token", answer([1.5], [-1]), "cannot be read"],
  ["tokens behind the end", answer([9, 5], [-1, -1]), "1 tokens behind one that ends a turn"],
  ["a probability above 1", answer([5], [0.5]), "a log-probability of 0.5"],
  ["a probability beyond 32 bits", answer([5], [-1e300]), "a log-probability of -1e+300"],
  ["a probability too few", answer([5, 6], [-1]), "no log-probability for each sampled token"],
  ["a probability of null", answer([5], [null]), "no log-probability for each sampled token"],
  ["another prompt", answer([5], [-1], { prompt_token_ids: [1, 2] }), "a prompt of 2 tokens, where 3 were sent"],
  ["a prompt without end", answer([5], [-1], { prompt_token_ids: many }), "a prompt of 300000 tokens"],
  ["two turns", JSON.stringify({ choices: [{}, {}] }), "cannot be read"],
  ["no turn", "[]", "cannot be read"],
  ["no JSON", "<html>", "cannot be read"],
  ["NaN", '{"choices":[{"token_ids":[5],"logprobs":{"token_logprobs":[NaN]}}]}', "cannot be read"],
  ["a text without end", `"${"a".repeat(2_000_000)}"`, "its answer has more than 1 MiB"],
])("a turn with %s is refused", async (_, text, message) => {
  said = text;
  const error = await complete(client, asked).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(HoneError);
  expect((error as Error).message).toContain(message);
  expect((error as Error).message).not.toContain("\n");
});

it("a turn that the server has broken off may be asked of another one", async () => {
  said = answer([5], [-1], { finish_reason: "abort" });
  await expect(complete(client, asked)).rejects.toBeInstanceOf(ServerLost);
});

it("a turn at which a server that answers fails again and again ends with the server's words", async () => {
  const board = Board.of(1);
  const servers: Servers = {
    board,
    clients: [client],
    contextPerSequence: 100,
    vocabularySize: 100,
    nameOf: () => "base",
    saltOf: () => "",
    version: () => 0,
  };
  const sequence = new VllmSequence(servers, new Group(servers, 1), Int32Array.of(1, 2, 3));
  // Each time it is checked, and found well.
  const joining = setInterval(() => board.join(0), 10);
  [status, said] = [500, JSON.stringify({ error: { message: "no such kernel" } })];
  const turn = sequence.generate({ maxTokens: 4, sampling: { seed: 1 }, stop: [9] });
  await expect(turn).rejects.toThrow(
    `vLLM at ${client.url} has failed 5 times at one request; at last it answers 500: no such kernel`,
  );
  clearInterval(joining);
  sequence.close();
  status = 200;
});

it.each([
  ["of too few tokens", [null, { 2: { logprob: -1 } }]],
  ["above 1", [null, { 2: { logprob: -1 } }, { 3: { logprob: 2 } }]],
  ["beyond 32 bits", [null, { 2: { logprob: -1 } }, { 3: { logprob: -1e300 } }]],
])("scores %s are refused", async (_, given) => {
  said = JSON.stringify({ choices: [{ prompt_logprobs: given }] });
  await expect(score(client, asked, [1, 2, 3], 1)).rejects.toThrow("gives no log-probabilities of a prompt's tokens");
});

it("other answers that are not vLLM's are refused in a line", async () => {
  for (const text of ["", "null", "{}", '{"tokens": "1,2"}', '{"data": [{"id": 1}]}']) {
    said = text;
    await expect(tokenized(client, "base", "a")).rejects.toThrow("the server's tokens cannot be read; is it vLLM?");
    await expect(models(client)).rejects.toThrow("the server's list of models cannot be read; is it vLLM?");
  }
});

it("one signal ends what is waited for of a server that accepts, and never answers", async () => {
  const silent = createPlain((socket) => void socket.on("error", () => undefined));
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const waiting = new HttpClient(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`);
  const abort = new AbortController();
  silent.once("connection", () => abort.abort(new HoneError("terminated")));
  const fleet = new Fleet({
    ...{ clients: [waiting], board: Board.of(1), prefix: "hone", folder: new AdapterFolder(newFolder()) },
    expected: { words: { tokenize: () => Int32Array.of(1) } } as unknown as Expected,
    ...{ signal: abort.signal, log: () => undefined },
  });
  await expect(fleet.open()).rejects.toThrow(/^terminated$/);
  await fleet.close();
  waiting.close();
  silent.close();
});
