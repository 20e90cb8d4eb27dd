/** Runs the generator against a scripted model, and counts which planted faults are left. */
import { JudgeClient } from "../../../src/judge/client.js";
import { Judge } from "../../../src/judge/judge.js";
import type { ScenarioRow } from "../../../src/scenarios/file.js";
import { readScenarioFile } from "../../../src/scenarios/file.js";
import { type GenerateSettings, generate } from "../../../src/scenarios/generate.js";
import type { Source } from "../../../src/scenarios/pieces.js";
import { clientSettings, memoryCache, never } from "../../judge/support/judging.js";

export const judgeAt = (url: string, cache = memoryCache()) =>
  new Judge(new JudgeClient({ ...clientSettings, url, concurrency: 8 }), cache, "scripted");

export async function generated(
  source: Source,
  judge: Judge,
  out: string,
  more: Partial<GenerateSettings> = {},
): Promise<{
  summary: Awaited<ReturnType<typeof generate>>;
  kept: readonly ScenarioRow[];
  dropped: readonly ScenarioRow[];
}> {
  const settings = { n: 10_000, perPiece: 10, tries: 3, testShare: 0.3, seed: 1, about: undefined, ...more };
  const summary = await generate({ source, judge, out, ...settings }, { signal: never, onProgress: () => undefined });
  return { summary, ...readScenarioFile(out) };
}

/** What a written question is: one of a fact's wordings, or a fault. */
export interface Planted {
  readonly kind: "good" | "copy" | "unanswerable";
  /** Of good ones and copies: what they ask. */
  readonly fact: string;
}

export interface Measured {
  /** Shares of planted faults that are gone. */
  readonly copiesRemoved: number;
  readonly unanswerableRemoved: number;
  /** Share of facts of which no question was kept. */
  readonly goodLost: number;
  /** Facts asked on both sides of the split. */
  readonly acrossSplits: number;
}

export function measure(kept: readonly ScenarioRow[], planted: ReadonlyMap<string, Planted>): Measured {
  const of = (kind: Planted["kind"]) => [...planted.values()].filter((one) => one.kind === kind);
  const found = kept.flatMap((row) => {
    const one = planted.get(row.question);
    return one ? [{ ...one, split: row.split }] : [];
  });
  const facts = new Set(of("good").map(({ fact }) => fact));
  // Of the wordings of one fact any may be the one that stays.
  const wordings = [...facts].map((fact) => found.filter((one) => one.kind !== "unanswerable" && one.fact === fact));
  const extra = wordings.reduce((sum, all) => sum + Math.max(0, all.length - 1), 0);
  return {
    copiesRemoved: 1 - extra / of("copy").length,
    unanswerableRemoved: 1 - found.filter(({ kind }) => kind === "unanswerable").length / of("unanswerable").length,
    goodLost: wordings.filter(({ length }) => length === 0).length / facts.size,
    acrossSplits: wordings.filter((all) => new Set(all.map(({ split }) => split)).size > 1).length,
  };
}
