/**
 * `yarn bench`: runs the rows in bench/rows/ and saves them with what they were measured on. Every file there is one
 * bench; nothing has to be registered.
 */
import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Gpu, LocalEngine } from "../src/core/engine/engine.js";
import { HoneError, UsageError } from "../src/core/util/errors.js";
import { loadEngine } from "../src/engine/factory.js";
import { gpuMemory } from "../src/engine/load.js";
import { modelFile } from "../src/engine/models.js";
import { decodeThreads } from "../src/engine/threads.js";
import { readArguments } from "./arguments.js";
import { busyWarning, hardwareOf, versionsOf } from "./hardware.js";
import { describe } from "./measure.js";
import { ensureTestModels, modelPath } from "./models.js";
import { quick } from "./quick.js";
import { type Setting, saveSpeed } from "./results.js";
import { type Bench, type BenchContext, type Row, shapes } from "./row.js";

const usage = `yarn bench [options]                 all rows, in some 30 minutes on a small CPU; results to bench/results
yarn bench --quick [--model GGUF]     this machine's tokens per second, in under a minute

  --only NAME,...       only rows whose name begins so: --only fork,decode/
  --list                names the rows
  --model GGUF          a model file, or the name of a model that comes with hone, instead of the rows' own
  --adapter GGUF        an adapter on that model (with --quick)
  --sequences 1,8,32    how many sequences at once
  --rounds N            how often both sides of a comparison are measured (default 3)
  --threads N           CPU threads (default: what hone would choose)
  --shape NAME          learner/: tiny, smollm2 or 0.5b alone
  --db FILE             a mail database for rows that train, instead of a synthetic mailbox
  --gpu NAME            auto, cuda, vulkan, metal or none (default auto)
  --help`;

const gpus: Readonly<Record<string, Gpu>> = {
  auto: "auto",
  cuda: "cuda",
  vulkan: "vulkan",
  metal: "metal",
  none: false,
};

function parse() {
  const read = () =>
    parseArgs({
      options: {
        only: { type: "string" },
        list: { type: "boolean", default: false },
        quick: { type: "boolean", default: false },
        model: { type: "string" },
        adapter: { type: "string" },
        sequences: { type: "string" },
        rounds: { type: "string", default: "3" },
        threads: { type: "string" },
        shape: { type: "string" },
        db: { type: "string" },
        gpu: { type: "string", default: "auto" },
        help: { type: "boolean", default: false },
      },
    }).values;
  const values = readArguments(read, "yarn bench");
  const whole = (flag: string, text: string) => {
    const number = Number(text);
    if (!Number.isInteger(number) || number < 1) throw new UsageError(`--${flag}: ${text} is no whole number above 0`);
    return number;
  };
  const gpu = gpus[values.gpu];
  if (gpu === undefined) throw new UsageError(`--gpu: ${values.gpu} is none of ${Object.keys(gpus).join(", ")}`);
  const shape = shapes.find((name) => name === values.shape);
  if (values.shape !== undefined && shape === undefined) {
    throw new UsageError(`--shape: ${values.shape} is none of ${shapes.join(", ")}`);
  }
  if (values.adapter !== undefined && !values.quick) throw new UsageError("--adapter goes with --quick");
  return {
    ...values,
    gpu,
    shape,
    only: values.only?.split(","),
    model: values.model === undefined ? undefined : modelFile(values.model),
    adapter: values.adapter === undefined ? undefined : resolve(values.adapter),
    db: values.db === undefined ? undefined : resolve(values.db),
    sequences: values.sequences?.split(",").map((text) => whole("sequences", text)),
    rounds: whole("rounds", values.rounds),
    threads: values.threads === undefined ? undefined : whole("threads", values.threads),
  };
}

async function allBenches(): Promise<Bench[]> {
  const folder = new URL("./rows/", import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith(".js"));
  const modules = await Promise.all(
    files.map((name) => import(new URL(name, folder).href) as Promise<{ bench: Bench }>),
  );
  return modules.map(({ bench }) => bench).sort((a, b) => a.name.localeCompare(b.name));
}

async function main(): Promise<void> {
  const options = parse();
  if (options.help) {
    console.log(usage);
    return;
  }
  const benches = await allBenches();
  if (options.list) {
    for (const { name, about } of benches) console.log(`${name.padEnd(30)} ${about}`);
    return;
  }
  const log = (line: string) => console.error(line);
  const busy = busyWarning();
  if (busy) log(busy);
  let measuredOn: Setting | undefined;
  let threads = decodeThreads(options.threads);
  const context: BenchContext = {
    ...options,
    log,
    async load(wanted): Promise<LocalEngine> {
      // On a CPU fixed, so that the engine does not reduce its threads during a measurement.
      const onGpu = (await gpuMemory(options.gpu)) !== null;
      const fixed = onGpu && options.threads === undefined ? {} : { threads: decodeThreads(options.threads) };
      const engine = await loadEngine({ ...fixed, ...wanted, gpu: options.gpu });
      if (!measuredOn) {
        threads = engine.info.threads;
        measuredOn = { hardware: hardwareOf(engine), versions: versionsOf(engine) };
      }
      return engine;
    },
  };

  if (options.quick) {
    if (options.model === undefined) await ensureTestModels(["0.5b"], log);
    await quick(context, options.model ?? modelPath("qwen2-0.5b-shape-f16.gguf"));
    return;
  }

  const chosen = benches.filter(({ name }) => !options.only || options.only.some((start) => name.startsWith(start)));
  if (chosen.length === 0) {
    throw new UsageError(
      `--only: no row begins with ${options.only?.join(" or ")}; there are ${benches.map(({ name }) => name).join(", ")}`,
    );
  }
  const sets = options.model === undefined ? chosen.flatMap(({ models }) => models) : [];
  await ensureTestModels([...new Set(sets)], log);
  const rows: Row[] = [];
  for (const bench of chosen) {
    log(`\n${bench.name}: ${bench.about}`);
    rows.push(...(await bench.run(context)).map((row) => ({ threads, ...row })));
  }
  for (const row of rows) console.log(`${describe(row)}${row.target === "" ? "" : ` (wanted: ${row.target})`}`);
  measuredOn ??= { hardware: hardwareOf(undefined), versions: versionsOf(undefined) };
  const file = saveSpeed({ ...measuredOn, rows });
  console.log(`\nsaved to ${file}`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  console.error(`bench: ${error.message}`);
  process.exitCode = error.exitCode;
}
