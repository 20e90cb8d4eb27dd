/**
 * The engine's log-probabilities against transformers' on the same weights: for tokens that the engine sampled, in a
 * sequence of several turns, with and without an adapter, for each architecture, with several CPU libraries of
 * llama.cpp. The figures are printed.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ensureTestModels } from "../../bench/models.js";
import { ensureLearnerPython } from "../support/python.js";
import { expectWithin } from "./behaviours.js";
import { type CpuLibrary, chosen, cpuLibraries, onlyWith } from "./cpu-libraries.js";
import {
  type Case,
  caseName,
  cases,
  difference,
  figuresOf,
  type Pair,
  type Played,
  playCases,
  Reference,
} from "./transformers.js";

/** Sequences that share the engine when the effect of batching is measured. */
const BATCHED = 4;

const python = await ensureLearnerPython();
const libraries = cpuLibraries(python);
const runnable = libraries.filter(({ score }) => score > 0);
const folder = mkdtempSync(join(tmpdir(), "hone-cpu-libraries-"));

/** What each library played, or why it played nothing. */
const results = new Map<string, Map<string, Played> | Error>();
const reference = new Reference();

/** Plays all cases in a process that has this library only. */
async function playWith(library: CpuLibrary): Promise<Map<string, Played>> {
  const { libraries: ran, played } = await playCases(
    cases,
    { gpu: false, sequences: BATCHED, exact: true },
    onlyWith(library, folder),
  ).catch((error: Error) => {
    throw new Error(`nothing can be played with the CPU library "${library.name}": ${error.message}`);
  });
  if (library.name !== "") expect(ran).toEqual([`libggml-cpu-${library.name}.so`]);
  return played;
}

beforeAll(async () => {
  await ensureTestModels(["tiny"], () => undefined);
  for (const library of chosen(runnable)) {
    results.set(library.name, await playWith(library).catch((error: Error) => error));
  }
  const asked = [...results.values()].flatMap((played) =>
    played instanceof Error
      ? []
      : cases.flatMap((one) => {
          const { alone, batched } = played.get(caseName(one)) as Played;
          return [alone, ...batched].map((conversation) => ({ one, conversation }));
        }),
  );
  reference.ask(python, "f32", asked);
});

const lines: string[] = [];
afterAll(() => {
  rmSync(folder, { recursive: true });
  const cannot = libraries.filter(({ score }) => score === 0).map(({ name }) => name);
  const head = [`CPU libraries that this CPU cannot run: ${cannot.join(", ") || "none"}`];
  const about = "log-probabilities of the engine against transformers (f32): mean and largest |Δ|, of those allowed";
  console.log([about, ...head, ...lines].join("\n  "));
});

test("there is a CPU library that this CPU can run", () => {
  expect(runnable.map(({ name }) => name)).not.toEqual([]);
});

describe.each(chosen(runnable).map(({ name }) => name))("with the CPU library %s", (library) => {
  const find = (one: Case): Played => {
    const played = results.get(library) as Map<string, Played> | Error;
    if (played instanceof Error) throw played;
    return played.get(caseName(one)) as Played;
  };

  test.each(cases)("log-probabilities equal transformers': $family, $weights, $adapter", (one) => {
    const ways = reference.ways(one, find(one));
    lines.push(`${library.padEnd(8)} ${caseName(one).padEnd(20)} ${figuresOf(ways)}`);
    expectWithin(ways);
  });

  test.each(cases.filter(({ adapter }) => adapter !== "none"))(
    "an adapter changes the model, so that it is seen to work: $family, $weights, $adapter",
    (one) => {
      const { scored, scoredWithout } = find(one);
      const gap = difference(scored.map((value, i): Pair => [value, scoredWithout[i] as number]));
      expect(gap.mean).toBeGreaterThan(0.1);
    },
  );
});

// Where there is one library for all CPUs, no other can be asked for.
if (libraries.every(({ name }) => name !== "")) {
  test("a CPU library that cannot be loaded fails the tests in one line with its name", async () => {
    await expect(playWith({ name: "of-no-cpu", score: 0 })).rejects.toThrow(
      /^nothing can be played with the CPU library "of-no-cpu": [^\n]*llama\.cpp [^\n]*cannot be loaded here[^\n]*$/,
    );
  });
}
