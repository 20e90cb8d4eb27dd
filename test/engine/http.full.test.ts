/** An engine's server that takes no connection for longer than undici waits for one. */
import { Worker } from "node:worker_threads";
import { expect, it } from "vitest";
import { HttpClient } from "../../src/engine/http.js";

/** Listens, and takes no connection: the system keeps a few, and is silent to more. */
const BUSY = `
const { parentPort } = require("node:worker_threads");
const server = require("node:net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
  parentPort.postMessage(server.address().port);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});`;

it("a server that is too busy to take a connection has all of a request's time", async () => {
  const server = new Worker(BUSY, { eval: true });
  const port = await new Promise((resolve) => server.once("message", resolve));
  const client = new HttpClient(`http://127.0.0.1:${port}`, { seconds: 15 });
  // Limits keep no process alive.
  const alive = setInterval(() => undefined, 1000);
  const asked = Array.from({ length: 5 }, () => client.ask("/").catch((error: Error) => error.message));
  expect(new Set(await Promise.all(asked))).toEqual(new Set(["it has answered nothing for 15 seconds"]));
  clearInterval(alive);
  client.close();
  void server.terminate();
});
