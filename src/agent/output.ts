/**
 * Console output of each rollout's code. Many rollouts share a thread; which of them writes is known by the
 * asynchronous context that it runs in. Nothing reaches the terminal, where a progress line is: the end of it is kept.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";
import type { Logger } from "../core/task/agent.js";

/** Characters that are kept. */
const KEPT = 4000;

export class Output {
  #text = "";

  write(text: string): void {
    this.#text = (this.#text + text).slice(-KEPT);
  }

  /** Without an incomplete first line. */
  get text(): string {
    const cut = this.#text.length < KEPT ? this.#text : this.#text.slice(this.#text.indexOf("\n") + 1);
    return cut.trimEnd();
  }

  /** The last lines, for a message. */
  tail(lines = 8): string {
    return this.text.split("\n").slice(-lines).join("\n");
  }
}

/** Lines for the output, whichever code writes them: a console's need the rollout's asynchronous context. */
export function loggerTo(output: Output): Logger {
  const line =
    (level: keyof Logger) =>
    (...values: unknown[]) =>
      output.write(`[${level}] ${format(...values)}\n`);
  return { log: line("log"), debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
}

/** A rollout, to the code that runs on its behalf. */
export interface Blamed {
  readonly output: Output;
  /** Called with an uncaught error of that code. */
  fail(error: unknown): void;
}

const running = new AsyncLocalStorage<Blamed>();

export const onBehalfOf = <T>(rollout: Blamed, work: () => T): T => running.run(rollout, work);

type Write = typeof process.stdout.write;

/** Active on this thread from now on. `onStray` gets errors that belong to no known rollout. */
export function catchEverything(onStray: (error: unknown) => void): void {
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write.bind(stream) as Write;
    stream.write = ((chunk: string | Uint8Array, ...rest: unknown[]) => {
      const rollout = running.getStore();
      if (!rollout) return (write as (...args: unknown[]) => boolean)(chunk, ...rest);
      rollout.output.write(typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8"));
      const done = rest.find((one) => typeof one === "function") as ((error?: Error | null) => void) | undefined;
      if (done) queueMicrotask(() => done());
      return true;
    }) as Write;
  }
  // The console of a thread writes in its own way.
  for (const name of ["log", "info", "warn", "error", "debug", "trace"] as const) {
    const own = console[name].bind(console);
    console[name] = (...args: unknown[]) => {
      const rollout = running.getStore();
      if (rollout) rollout.output.write(`${format(...args)}\n`);
      else own(...args);
    };
  }
  const blame = (error: unknown) => {
    const rollout = running.getStore();
    if (rollout) rollout.fail(error);
    else onStray(error);
  };
  process.on("unhandledRejection", blame);
  process.on("uncaughtException", blame);
  // It would end the thread, and with it every rollout on it.
  process.exit = ((code?: number | string | null) => {
    throw new Error(`the agent called process.exit(${code ?? ""})`);
  }) as typeof process.exit;
}
