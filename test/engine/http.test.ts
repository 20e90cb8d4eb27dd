/** What is asked of an engine's server is not waited for without end, whatever the server does; nor is its answer taken without end. */
import { createServer, type RequestListener, type Server } from "node:http";
import { type AddressInfo, createServer as createPlain, type Server as PlainServer, type Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { HoneError } from "../../src/core/util/errors.js";
import { HttpClient, NoAnswer } from "../../src/engine/http.js";

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

async function clientOf(server: PlainServer | Server, seconds: number): Promise<HttpClient> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket.on("error", () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = new HttpClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { seconds });
  open.push(() => {
    client.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return client;
}

const answering = (listener: RequestListener) => createServer(listener);

/** Calls it again and again until the response is closed. */
function repeated(
  response: { once(event: "close", listener: () => void): unknown },
  milliseconds: number,
  work: () => void,
) {
  const timer = setInterval(work, milliseconds);
  response.once("close", () => clearInterval(timer));
}

it.each([
  ["accepts, and never answers", createPlain(() => undefined)],
  ["sends headers alone", answering((_, response) => void response.writeHead(200).flushHeaders())],
  [
    "sends a byte now and then",
    answering((_, response) => {
      response.writeHead(200);
      repeated(response, 20, () => void response.write(" "));
    }),
  ],
  [
    "sends a byte of its headers now and then",
    createPlain((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nx: ");
      repeated(socket, 20, () => void socket.write("a"));
    }),
  ],
])("a server that %s is given up when its time is over", async (_, server) => {
  const client = await clientOf(server, 0.2);
  const error = await client.ask("/").catch((error: unknown) => error);
  expect(error).toBeInstanceOf(NoAnswer);
  expect((error as Error).message).toBe("it has answered nothing for 0.2 seconds");
});

it.each([
  ["that closes at once", createPlain((socket) => void socket.destroy())],
  ["that breaks off", answering((_, response) => void response.writeHead(200).write("{", () => response.destroy()))],
  ["that does not speak HTTP", createPlain((socket) => void socket.end("SSH-2.0-OpenSSH_9.9\r\n"))],
])("a server %s gives no answer", async (_, server) => {
  const client = await clientOf(server, 1);
  await expect(client.ask("/", {})).rejects.toBeInstanceOf(NoAnswer);
});

it("an answer that goes on and on is ended at its size, and one of that size is taken", async () => {
  const piece = "a".repeat(65_536);
  const client = await clientOf(
    answering((request, response) => {
      if (request.url === "/fits") response.end(piece);
      else repeated(response, 1, () => void response.write(piece));
    }),
    60,
  );
  const error = await client.ask("/", undefined, { most: 1_048_576 }).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(HoneError);
  expect((error as Error).message).toBe("its answer has more than 1 MiB");
  expect((await client.ask("/fits", undefined, { most: piece.length })).text).toBe(piece);
});

it("aborting a request, or all of a client, ends what is waited for with the reason", async () => {
  const client = await clientOf(
    createPlain(() => undefined),
    60,
  );
  const [one, all] = [new AbortController(), new AbortController()];
  const asked = [
    client.ask("/", {}, { signal: one.signal }),
    client.with({ signal: all.signal }).ask("/"),
    client.with({ signal: AbortSignal.abort(new HoneError("before")) }).ask("/"),
  ].map((answer) => answer.catch((error: Error) => error.message));
  one.abort(new HoneError("one"));
  all.abort(new HoneError("all"));
  expect(await Promise.all(asked)).toEqual(["one", "all", "before"]);
});
