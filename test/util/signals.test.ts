/** Signals that are aborted together. */
import { EventEmitter } from "node:events";
import { setImmediate as breath } from "node:timers/promises";
import { expect, it } from "vitest";
import { anyOf } from "../../src/core/util/signals.js";

it("as many wait for a lasting signal as like, without Node's warning of a leak, and all hear of it", async () => {
  const warnings: string[] = [];
  const heed = ({ name }: Error) => void warnings.push(name);
  process.on("warning", heed);
  const lasting = new AbortController();
  const joined = Array.from({ length: 20 }, () => anyOf([lasting.signal, new AbortController().signal]));
  await breath();
  process.off("warning", heed);
  expect(warnings).toEqual([]);
  joined[0]?.[Symbol.dispose]();
  lasting.abort(new Error("over"));
  expect(joined.map(({ signal }) => signal.aborted)).toEqual([false, ...Array(19).fill(true)]);
});

it("is aborted at once where one of them is already", () => {
  const over = new Error("over");
  const { signal } = anyOf([new AbortController().signal, AbortSignal.abort(over)]);
  expect([signal.aborted, signal.reason]).toEqual([true, over]);
});

it("of no signals is never aborted, and changes nothing for the process", () => {
  const { defaultMaxListeners } = EventEmitter;
  expect(anyOf([]).signal.aborted).toBe(false);
  expect(EventEmitter.defaultMaxListeners).toBe(defaultMaxListeners);
});
