/** A planned step as text, and as an object with keys in snake_case. */
import { assumptions } from "./assumptions.js";
import { clusterText } from "./cluster.js";
import { gigabytes } from "./fit.js";
import type { Layout, Misfit, Place } from "./layouts.js";
import type { StepPlan } from "./step-plan.js";

const HOUR = 3600;
/** Steps of a run that costs are given for. */
const STEPS = 100;

export function secondsText(seconds: number): string {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 0.095) return `${Math.round(1000 * seconds)} ms`;
  return `${seconds < 9.95 ? seconds.toFixed(1) : Math.round(seconds).toLocaleString("en")} s`;
}

const count = (value: number) => Math.round(value).toLocaleString("en");
const cost = (value: number) => value.toFixed(value < 10 ? 2 : 0);

const numberText = (value: number) =>
  value >= 1e6 || (value > 0 && value < 1e-3) ? value.toExponential() : String(value);

function timeLines({ parts, seconds }: Layout): string[] {
  const rows = parts.map(({ name, seconds: own, bound }) => [
    secondsText(own).padStart(8),
    `${Math.round((100 * own) / seconds)} %`.padStart(6),
    `${name} (${bound})`,
  ]);
  return [...rows.map((row) => row.join("  ")), [secondsText(seconds).padStart(8), "      ", "a step"].join("  ")];
}

function costLine({ cluster, assumed }: StepPlan, { seconds }: Layout): string {
  const hours = (STEPS * seconds) / HOUR;
  const cards = cluster.machines * cluster.cards;
  const money = assumed.price > 0 ? `, $${cost(cards * hours * assumed.price)}` : "";
  return `${STEPS} steps: ${cost(hours)} hours, ${cost(cards * hours)} card-hours${money}`;
}

const placeText = ({ name, rows, bytes, room }: Place) =>
  `  ${name}: ${gigabytes(bytes)}${room === null ? "" : ` of ${gigabytes(room)}`} (${rows.map((row) => `${row.name} ${gigabytes(row.bytes)}`).join(", ")})`;

const flagsText = (flags: readonly string[]) => flags.join(" ");

const misfitText = ({ name, flags }: Misfit) =>
  `  does not fit: ${name}${flags?.length ? `; these make it fit: ${flagsText(flags)}` : ""}`;

const heading = ({ work, tokens, cluster }: StepPlan) =>
  `a step of ${count(tokens.rollouts)} rollouts (${work.groups} × ${work.groupSize}) of ${count(tokens.length)} tokens on ${clusterText(cluster)}`;

export function stepPlanText(name: string, plan: StepPlan): string {
  const { shape, best, others, misfits, next, assumed, cluster, tokens } = plan;
  const lines = [
    `${name} (${shape.weightType}, ${gigabytes(shape.bytes)}): ${heading(plan)}`,
    "arithmetic, not measured; expected memory as by `yarn train`'s own plan",
    `a step reads ${count(tokens.read)} tokens, samples ${count(tokens.sampled)}, and learns from ${count(tokens.positions)} positions`,
    "",
  ];
  if (best) {
    lines.push(best.name);
    if (best.flags.length > 0) lines.push(`  ${flagsText(best.flags)}`);
    if (best.server) lines.push(`  a server: ${best.server}`);
    lines.push(
      ...timeLines(best),
      costLine(plan, best),
      "",
      "memory where it is fullest",
      ...best.places.map(placeText),
    );
  } else lines.push("nothing fits");
  const ways = [...others.map((one) => `  ${secondsText(one.seconds)}: ${one.name}`), ...misfits.map(misfitText)];
  if (ways.length > 0) lines.push("", "other ways on these cards", ...ways);
  lines.push("", "what to add next");
  for (const { what, flags, seconds, gain, cost: price } of next) {
    const faster = gain === null ? "" : `${gain.toFixed(1)} times as fast, `;
    const given = flags.length > 0 ? `: ${flagsText(flags)}` : "";
    lines.push(`  ${what}: ${faster}${secondsText(seconds)} a step; costs ${price}${given}`);
  }
  if (next.length === 0) lines.push("  nothing that this arithmetic finds faster by a twentieth");
  lines.push("", `assumed (--assume NAME=VALUE); the ${cluster.device.title}'s rates: ${cluster.device.source}`);
  for (const { key, name: named, unit, about } of assumptions) {
    if (key.startsWith("cpu") && cluster.device.kind !== "cpu") continue;
    lines.push(`  ${named} ${numberText(assumed[key])}${unit === "" ? "" : ` ${unit}`} ${about}`);
  }
  return lines.join("\n");
}

const layoutJson = ({ name, flags, server, cardsUsed, parts, seconds, places }: Layout) => ({
  ...{ name, flags, server: server ?? null, cards_used: cardsUsed, parts, seconds, places },
});

/** What `--json` prints. Bytes, seconds. */
export function stepPlanJson(name: string, plan: StepPlan) {
  const { shape, cluster, work, tokens, best, others, misfits, next, assumed } = plan;
  const { device, machines, cards } = cluster;
  return {
    model: name,
    measured: false,
    weights: shape.weightType,
    machines,
    cards,
    card: { title: device.title, memory_gib: device.memory, bandwidth: device.bandwidth, products: device.products },
    work: {
      groups: work.groups,
      group_size: work.groupSize,
      rollout_tokens: tokens.length,
      read_tokens: tokens.read,
      sampled_tokens: tokens.sampled,
      update_positions: tokens.positions,
    },
    best: best ? layoutJson(best) : null,
    others: others.map(layoutJson),
    misfits: misfits.map((one) => ({ name: one.name, flags: one.flags ?? [] })),
    next,
    assumed: Object.fromEntries(assumptions.map((one) => [one.name, assumed[one.key]])),
  };
}
