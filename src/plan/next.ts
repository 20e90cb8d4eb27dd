/** What to add next: more cards, more machines, other options, each planned as a whole step with what it costs. */

import { MOST_SEQUENCES } from "../config/index.js";
import type { Assumptions } from "./assumptions.js";
import { in4Bits } from "./by-default.js";
import { type Cluster, clusterText } from "./cluster.js";
import { concurrencyOf } from "./input.js";
import { ALIKE, type Layout, layoutsOn, type PlannedRun } from "./layouts.js";
import { soldCards } from "./sold.js";

export interface Addition {
  readonly what: string;
  readonly flags: readonly string[];
  /** Seconds of a step with it. */
  readonly seconds: number;
  /** How many times as fast; null where nothing fits without it. */
  readonly gain: number | null;
  readonly cost: string;
}

/** Of the machines that such cards are sold in. */
const MOST_CARDS = 8;

interface Candidate {
  readonly what: string;
  readonly cluster: Cluster;
  readonly run: PlannedRun;
  readonly flags?: readonly string[];
  readonly cost: string;
}

const cardCost = (before: Cluster, { machines, cards }: Cluster) => {
  const more = machines * cards - before.machines * before.cards;
  return `${more} ${more === 1 ? "card" : "cards"} more`;
};

/** Clusters with more cards in each machine, and with more machines. */
function larger(cluster: Cluster): Cluster[] {
  const { machines, cards } = cluster;
  const counts = cards >= MOST_CARDS ? [] : [...new Set([cards + 1, Math.min(MOST_CARDS, 2 * cards)])];
  return [
    ...counts.map((count) => ({ ...cluster, cards: count })),
    { ...cluster, machines: machines + 1 },
    ...(machines > 1 ? [{ ...cluster, machines: 2 * machines }] : []),
  ];
}

function candidates(cluster: Cluster, run: PlannedRun, now: Layout | undefined): Candidate[] {
  const onCuda = cluster.device.kind === "cuda";
  const { input, work } = run;
  const more = onCuda ? larger(cluster) : [];
  const list: Candidate[] = more.map((one) => ({
    ...{ what: clusterText(one), cluster: one, run, cost: cardCost(cluster, one) },
  }));
  const older = "rollouts of a policy one update older";
  const [next] = more;
  if (cluster.machines * cluster.cards > 1)
    list.push({ what: "the next step played during the update", cluster, run: { ...run, ahead: true }, cost: older });
  else if (next) {
    const what = `${clusterText(next)}, the next step played during the update`;
    list.push({ what, cluster: next, run: { ...run, ahead: true }, cost: `${cardCost(cluster, next)}, ${older}` });
  }
  if (onCuda && ["F16", "BF16", "F32"].includes(input.shape.weightType) && run.engine !== "vllm") {
    list.push({
      what: "weights in 4 bits (Q4_K_M)",
      cluster,
      run: { ...run, engine: "llama.cpp", input: { ...input, shape: in4Bits(input.shape) } },
      flags: ["--model hf:REPOSITORY:FILE.gguf"],
      cost: "engine and learner differ more, by the rounding of activations (docs/models.md)",
    });
  }
  const atOnce = Math.min(MOST_SEQUENCES, work.groups * work.groupSize);
  if (run.free.concurrency && atOnce > input.concurrency) {
    list.push({
      what: `${atOnce} rollouts at once`,
      cluster,
      run: { ...run, input: { ...input, ...concurrencyOf(input, atOnce) }, free: { ...run.free, concurrency: false } },
      flags: [`--concurrency ${atOnce}`],
      cost: "memory for their KV",
    });
  }
  // The smallest card on which a model runs that does not here.
  const roomier = soldCards.find(({ memory }) => memory > (cluster.device.memory ?? 0));
  if (now === undefined && onCuda && roomier) {
    for (const { title, name: _, bf16, ...card } of soldCards.filter(
      ({ memory }) => memory > (cluster.device.memory ?? 0),
    )) {
      const device = { ...cluster.device, ...card, title, products: bf16 };
      list.push({
        what: clusterText({ ...cluster, device }),
        cluster: { ...cluster, device },
        run,
        cost: "other cards",
      });
    }
  }
  return list;
}

/** Additions that make a step faster, the largest gain first. `now`: the layout without; undefined where none fits. */
export function additions(
  cluster: Cluster,
  run: PlannedRun,
  now: Layout | undefined,
  assumed: Assumptions,
): Addition[] {
  const found = candidates(cluster, run, now).flatMap(({ what, flags = [], cost, ...one }): Addition[] => {
    const best = layoutsOn(one.cluster, one.run, assumed).best;
    if (!best) return [];
    const gain = now === undefined ? null : now.seconds / best.seconds;
    return gain !== null && gain < ALIKE
      ? []
      : [{ what, flags: [...flags, ...best.flags], seconds: best.seconds, gain, cost }];
  });
  return found.sort((a, b) => a.seconds - b.seconds);
}
