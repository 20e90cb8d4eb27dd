/**
 * `yarn gpu-check`: tests and measures hone on a card for an hour, without a network, and leaves one file. Every section runs in its
 * own process; the next call goes on after the last section.
 */
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { HoneError, messageOf, UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { readArguments } from "../arguments.js";
import { type CheckGpu, gpuOption } from "./context.js";
import { inFolder } from "./folder.js";
import { runHour } from "./hour.js";
import { linesOf } from "./lines.js";
import { prepare as models } from "./numbers.js";
import { MINUTES, plan } from "./plan.js";
import { hone } from "./programs.js";
import { isRehearsal, keyOf, Results } from "./results.js";
import { runSection } from "./run-section.js";

/** Most minutes of a section in a rehearsal: what a card computes, a CPU may. */
const REHEARSAL = 30;
const DEVICES: Readonly<Record<string, CheckGpu>> = { cuda: "cuda", vulkan: "vulkan", cpu: false };
const usage = `yarn gpu-check [options]      the sections that have not ended yet, in their order, as far as the time goes

  --prepare             brings what they need (packages, models, llama-batched-bench), for which it needs a network; measures nothing
  --minutes N           of this call (default ${MINUTES}): a section is not begun without its least time, and ends with the last
  --list                names the sections
  --sections A,B        these alone
  --again               also what has ended
  --out FOLDER          for the file (default bench/results; of a rehearsal build/gpu-check)
  --on DEVICE           cuda (default); vulkan, a software GPU, and cpu are rehearsals with tiny shapes: whether all of it runs, not
                        how fast
  --small               tiny shapes on a card too
  --help`;

function parse() {
  const flag = { type: "boolean", default: false } as const;
  const text = { type: "string" } as const;
  const read = () =>
    parseArgs({
      options: {
        prepare: flag,
        list: flag,
        again: flag,
        small: flag,
        help: flag,
        sections: text,
        out: text,
        minutes: { ...text, default: String(MINUTES) },
        on: { ...text, default: "cuda" },
      },
    }).values;
  const values = readArguments(read, "yarn gpu-check");
  const gpu = DEVICES[values.on];
  if (gpu === undefined) throw new UsageError(`--on: there are ${Object.keys(DEVICES).join(", ")}`);
  const minutes = Number(values.minutes);
  if (!(minutes > 0)) throw new UsageError("--minutes: give a number above 0");
  const names = plan.map(({ section }) => section.name);
  const asked = values.sections?.split(",");
  const unknown = asked?.find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`--sections: there is no ${unknown}; there are ${names.join(", ")}`);
  }
  const chosen = plan.filter(({ section }) => asked?.includes(section.name) ?? true);
  return { ...values, gpu, minutes, small: values.small || gpu !== "cuda", chosen };
}

/** What cannot be had costs the sections that need it, and is said. */
async function prepare(gpu: CheckGpu, small: boolean): Promise<void> {
  const log = (line: string) => console.error(line);
  await inFolder((folder) => hone(folder, "doctor", "--install", "--gpu", gpuOption(gpu)));
  for (const extra of ["dev", "unsloth", "vllm"] as const) {
    try {
      await ensurePython({ extras: [extra], onProgress: log });
    } catch (error) {
      log(`without ${extra}: ${messageOf(error)}`);
    }
  }
  await models.run({ gpu, small, standIn: false, earlier: () => undefined, log, save: () => undefined });
}

async function main(): Promise<void> {
  const { help, list, gpu, small, minutes, again, out, chosen, ...values } = parse();
  if (help) return void console.log(usage);
  if (list) {
    for (const { section, least, most } of plan) {
      console.log(`${section.name.padEnd(14)} ${`${least} to ${most} min`.padEnd(14)} ${section.about}`);
    }
    return;
  }
  if (values.prepare) return prepare(gpu, small);
  for (const [signal, code] of [["SIGINT", 130] as const, ["SIGTERM", 143] as const, ["SIGHUP", 129] as const]) {
    process.once(signal, () => process.exit(code));
  }
  const key = keyOf(gpu === false ? "cpu" : gpu, small);
  const folder = isRehearsal(key) ? join(packageRoot, "build/gpu-check") : join(packageRoot, "bench/results");
  const results = new Results(key, resolve(out ?? folder));
  const log = (line: string) => console.log(line);
  const run = (section: (typeof plan)[number]["section"], most: number) =>
    runSection({ section, results: results.file, gpu, small, minutes: most });
  const sections = chosen.map((one) => (isRehearsal(key) ? { ...one, most: REHEARSAL } : one));
  try {
    await runHour({ plan: sections, results, minutes, again, run, log });
  } finally {
    for (const line of linesOf(results.now)) log(line);
    log(`\n${isRehearsal(key) ? "a rehearsal, of which no figure means anything" : "to send"}: ${results.file}`);
  }
}

try {
  await main();
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  console.error(`gpu-check: ${error.message}`);
  process.exitCode = error.exitCode;
}
