/** What a card did beside what was expected of it, a line each, for who has run `yarn gpu-check`. */

import type { UpdateReport } from "../learner-update.js";
import { median } from "../measure.js";
import { cardOf, expectedDecode, updateArithmetic, updateSeconds } from "./estimates.js";
import type { Checked, Outcome } from "./results.js";
import type { SpeedRow } from "./speed.js";
import type { Trained } from "./steps.js";
import type { HeadsRow } from "./updates.js";

interface ParityRow {
  readonly adapter: "with" | "without";
  readonly decoder: string;
  readonly mean: number;
}

/** What sections save. */
interface Measured {
  readonly rows?: readonly unknown[];
  readonly llamaBatchedBench?: Readonly<Record<string, number>>;
  readonly steps?: Trained["steps"];
  readonly update?: UpdateReport;
}

const number = (value: number) => (value >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString());

interface Pair {
  readonly what: string;
  readonly measured: number | null | undefined;
  readonly expected?: number | null | undefined;
  /** What the expectation is. */
  readonly from?: string;
  readonly unit: string;
}

/** undefined where nothing was measured. */
function lineOf({ what, measured, expected, from, unit }: Pair): string | undefined {
  if (measured === null || measured === undefined) return undefined;
  const beside = expected ? `; ${number(expected)} ${from}, a ratio of ${number(measured / expected)}` : "";
  return `${what}: ${number(measured)} ${unit}${beside}`;
}

const GB = 1e9;

function pairsOf({ sections, hardware, small }: Checked): Pair[] {
  const card = small ? undefined : cardOf(hardware.gpu);
  const decode = card && expectedDecode(card);
  const found = sections as Readonly<Record<string, Outcome & Measured>>;
  const pairs: Pair[] = [];
  for (const { adapter, decoder, mean } of (found.parity?.rows ?? []) as readonly ParityRow[]) {
    const what = `parity: ${decoder} from the CPU, ${adapter} an adapter`;
    pairs.push({ what, measured: mean, expected: 0.01, from: "are 16-bit sums", unit: "nats" });
  }
  for (const name of ["speed-8", "speed-64", "speed-256"]) {
    for (const row of (found[name]?.rows ?? []) as readonly SpeedRow[]) {
      const { traffic, sequences, decoder, played, withoutAdapter, withAdapter } = row;
      if (withAdapter.length === 0) continue;
      const by = played === decoder ? decoder : `${decoder} (${played} played)`;
      const bare = traffic === "decode" ? found[name]?.llamaBatchedBench?.[sequences] : undefined;
      const counted = traffic === "decode" && decoder === "llama" ? decode?.get(sequences) : undefined;
      const what = `${traffic} ${sequences}, ${by}`;
      const unit = "tokens/s";
      pairs.push({ what, measured: median(withoutAdapter), expected: bare, from: "by llama-batched-bench", unit });
      const from = `counted for a ${card?.title}`;
      pairs.push({ what: `${what}, adapter`, measured: median(withAdapter), expected: counted, from, unit });
    }
  }
  for (const [name, { steps }] of Object.entries(found).filter(([name]) => name.startsWith("step-"))) {
    // The first compiles.
    for (const stage of ["rollouts", "update", "total"]) {
      const seconds = (steps ?? []).slice(1).flatMap((one) => one.seconds[stage] ?? []);
      if (seconds.length > 0) pairs.push({ what: `${name}: ${stage}`, measured: median(seconds), unit: "s" });
    }
  }
  for (const [name, by] of [["update-peft", "PEFT"] as const, ["update-unsloth", "Unsloth"] as const]) {
    const update = found[name]?.update;
    if (!update) continue;
    const what = `update of ${update.tokens} tokens by ${by}`;
    const expected = card && updateSeconds(card, update);
    pairs.push({ what, measured: update.seconds, expected, from: `by ${updateArithmetic}`, unit: "s" });
  }
  for (const { keys, kept, update } of (found["update-heads"]?.rows ?? []) as readonly HeadsRow[]) {
    const what = `update with keys ${keys}`;
    pairs.push({ what, measured: update.seconds, unit: "s" });
    const first = `${what}, the first, ${kept ? "of code that was kept" : "compiled"}`;
    pairs.push({ what: first, measured: update.firstSeconds, unit: "s" });
  }
  type Row = Trained & { readonly learnerLifetime: string };
  for (const { learnerLifetime, learner, card: whole } of (found.memory?.rows ?? []) as readonly Row[]) {
    for (const [part, { measured, planned }] of [["learner", learner] as const, ["card", whole] as const]) {
      const gigabytes = (bytes: number | null) => bytes && bytes / GB;
      const what = `memory of the ${part}, --learner-lifetime ${learnerLifetime}`;
      pairs.push({
        what,
        measured: gigabytes(measured),
        expected: gigabytes(planned),
        from: "planned",
        unit: "GB",
      });
    }
  }
  return pairs;
}

export const linesOf = (checked: Checked): string[] => pairsOf(checked).flatMap((pair) => lineOf(pair) ?? []);
