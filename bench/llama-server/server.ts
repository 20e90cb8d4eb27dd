/** Starts llama.cpp's own server, as a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { HoneError } from "../../src/core/util/errors.js";
import { needDevice, toolEnvironment } from "../llama-tools.js";

export interface Server {
  readonly port: number;
  readonly process: ChildProcess;
  stop(): Promise<void>;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => probe.once("listening", resolve));
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === "string") throw new HoneError("no port is free");
  return address.port;
}

/**
 * llama-server at a free port, with an engine's model, threads, batch sizes and context, as many slots, and its prompt cache on (the
 * default).
 *
 * @throws HoneError when it does not start, or cannot use the engine's GPU
 */
export async function startServer(program: string, engine: LocalEngine): Promise<Server> {
  const { info } = engine;
  const port = await freePort();
  await needDevice(program, engine);
  const args = [
    "-m",
    info.model,
    "-c",
    info.contextPerSequence * info.sequences,
    "--parallel",
    info.sequences,
    "-t",
    info.threads,
    "-tb",
    info.threads,
    "-b",
    info.batch,
    "-ub",
    info.ubatch,
    "-ngl",
    info.gpu === false ? 0 : 999,
    "--host",
    "127.0.0.1",
    "--port",
    port,
    "--log-disable",
  ].map(String);
  const server = spawn(program, args, { stdio: "ignore", env: toolEnvironment() });
  await healthy(server, `http://127.0.0.1:${port}`);
  return {
    port,
    process: server,
    async stop() {
      server.kill("SIGKILL");
      if (server.exitCode === null && server.signalCode === null) await new Promise((end) => server.once("close", end));
    },
  };
}

async function healthy(server: ChildProcess, url: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (Date.now() < deadline && server.exitCode === null) {
    const response = await fetch(`${url}/health`).catch(() => undefined);
    if (response?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  server.kill("SIGKILL");
  throw new HoneError("llama-server did not start");
}
