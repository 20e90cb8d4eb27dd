/** The line that says why a GPU takes so long. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { COMPILING, whileCompiling } from "../../src/engine/compiling.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const after = <T>(ms: number, value: T) => new Promise<T>((resolve) => setTimeout(() => resolve(value), ms));

/** Work of 10 seconds, in which a GPU compiles from one time to another. */
async function told(from: number, to: number): Promise<[at: number, line: string][]> {
  const start = Date.now();
  const lines: [number, string][] = [];
  const warming = () => Date.now() - start >= from && Date.now() - start < to;
  const work = whileCompiling(
    { warming },
    (line) => lines.push([Date.now() - start, line]),
    () => after(10_000, 7),
  );
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await work).toBe(7);
  expect(vi.getTimerCount()).toBe(0);
  return lines;
}

it("is said once, when compiling has lasted two seconds", async () => {
  expect(await told(0, 10_000)).toEqual([[2250, COMPILING]]);
  expect(await told(3000, 9000)).toEqual([[5000, COMPILING]]);
});

it("is not said of what takes less, or of work in which nothing is compiled", async () => {
  expect(await told(0, 1500)).toEqual([]);
  expect(await told(20_000, 30_000)).toEqual([]);
});

it("says what is loaded every ten seconds", async () => {
  const lines: string[] = [];
  const work = whileCompiling(
    { warming: () => false },
    (line) => lines.push(line),
    () => after(25_000, 7),
    "model.gguf",
  );
  await vi.advanceTimersByTimeAsync(25_000);
  expect(await work).toBe(7);
  expect(lines).toEqual(["loading model.gguf, 10 s", "loading model.gguf, 20 s"]);
});

it("hides no failure, and leaves no timer", async () => {
  const failing = whileCompiling({ warming: () => true }, vi.fn(), () => Promise.reject(new Error("no room")));
  await expect(failing).rejects.toThrow("no room");
  expect(vi.getTimerCount()).toBe(0);
});
