/** `yarn bench:card`: what the engine asks of a card, counted on one that computes nothing (scripts/bench-card.mjs builds it). */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { HoneError, UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { nameOf } from "../../test/null-card/support.js";
import { readArguments } from "../arguments.js";
import { versionsOf } from "../hardware.js";
import { casesOf, type Row, run, shapes, sizes, types } from "./case.js";
import { cardFacts, constants, formula, type Profile, profileNames } from "./estimate.js";
import { countLearner } from "./learner.js";
import { decoders, PROMPT, TOKENS } from "./traffic.js";

const usage = `yarn bench:card [options]     counts of the engine on a card that computes nothing; a file in bench/results

  --shapes 0.5b,1.5b,7b     of Qwen2.5's models
  --types bf16,f16          of their weights
  --traffic decode,agents   decode: ${TOKENS} tokens of every sequence after a prompt of ${PROMPT}; agents: groups of 8
  --sequences 1,8,64,256    decoded at once
  --decoders llama,own      whose graph plays
  --card NAME               ${profileNames.join(", ")}: whose properties llama.cpp is told; its kernels depend on them
  --learner                 an update of the learner instead of the engine (bench/learner/card_counts.py)
  --out FOLDER              for the file (default bench/results)
  --help`;

function parse() {
  const read = () =>
    parseArgs({
      options: {
        shapes: { type: "string", default: shapes.join() },
        types: { type: "string", default: types.join() },
        traffic: { type: "string", default: "decode,agents" },
        sequences: { type: "string", default: sizes.join() },
        decoders: { type: "string", default: decoders.join() },
        card: { type: "string", default: "h100" },
        learner: { type: "boolean", default: false },
        out: { type: "string", default: join(packageRoot, "bench/results") },
        help: { type: "boolean", default: false },
      },
    }).values;
  const values = readArguments(read, "yarn bench:card");
  const some = <T extends string | number>(flag: string, all: readonly T[], text: string): T[] =>
    text.split(",").map((one) => {
      const found = all.find((known) => String(known) === one);
      if (found === undefined) throw new UsageError(`--${flag}: ${one} is none of ${all.join(", ")}`);
      return found;
    });
  const [card = "h100"] = some("card", profileNames, values.card);
  return {
    ...values,
    card: card as Profile,
    shapes: some("shapes", shapes, values.shapes),
    types: some("types", types, values.types),
    traffic: some("traffic", ["decode", "agents"] as const, values.traffic),
    sequences: some("sequences", sizes, values.sequences),
    decoders: some("decoders", decoders, values.decoders),
    out: resolve(values.out),
  };
}

function describe({ shape, type, traffic, sequences, decoder, pooled, figures, estimates }: Row): string {
  const told = Object.entries(figures).map(([name, { value, goal, reached, best, rule }]) => {
    if (goal === undefined) return `${name} ${value}`;
    const least = best === undefined ? "" : `; ${best} is the best: ${rule}`;
    return `${name} ${value} (${goal}: ${reached ? "reached" : "NOT REACHED"}${least})`;
  });
  const speeds = estimates.map(({ card, tokensPerSecond }) => `${card} ${tokensPerSecond}`);
  return [
    `${traffic} ${sequences}, ${shape} ${type}, ${decoder === "own" ? "hone's own graph" : "llama.cpp's graph"}, ${pooled ? "one pool of KV" : "a buffer of KV for each sequence"}`,
    ...told,
    `tokens/s, estimated: ${speeds.join(", ")}`,
  ].join("\n  ");
}

async function main(): Promise<void> {
  const options = parse();
  if (options.help) {
    console.log(usage);
    return;
  }
  mkdirSync(options.out, { recursive: true });
  if (options.learner) return countLearner(options.card, options.out);
  const counted: Row[] = [];
  const file = join(options.out, `card-counts-engine-${slug(nameOf(options.card))}.json`);
  const earlier = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as { rows: Row[] }).rows : [];
  for (const one of casesOf(options)) {
    const row = await run(one, options.card);
    counted.push(row);
    console.log(describe(row));
    // As it has them: a run that is ended leaves what it counted. Rows of other cases stay.
    const rows = [...earlier.filter((old) => !counted.some((now) => sameCase(old, now))), ...counted];
    const what = "counts on a card that does not compute; speeds are arithmetic, not measured";
    const setting = { card: nameOf(options.card), versions: versionsOf(undefined) };
    const about = { what, ...setting, formula, constants, cards: cardFacts };
    writeFileSync(file, `${JSON.stringify({ ...about, rows }, null, 2)}\n`);
  }
  const missed = counted.flatMap(({ figures }) => Object.values(figures)).filter(({ reached }) => reached === false);
  console.log(`\n${missed.length} goals missed; saved to ${file}`);
}

const sameCase = (a: Row, b: Row) =>
  (["shape", "type", "traffic", "sequences", "decoder", "pooled"] as const).every((key) => a[key] === b[key]);

const slug = (name: string) => name.toLowerCase().replaceAll(" ", "-");

try {
  await main();
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  console.error(`bench:card: ${error.message}`);
  process.exitCode = error.exitCode;
}
