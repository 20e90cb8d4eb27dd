/**
 * `yarn gpu-check`: tests and measures hone on a card, in sections of at most eight minutes each, without a network.
 * Every section runs in its own process and writes its results at once; the next call continues after the last section.
 */
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { HoneError, messageOf, UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import type { CheckGpu } from "./context.js";
import { FIRST_MINUTES, runFirst } from "./first.js";
import { firstSections } from "./first-sections.js";
import { runSection, sectionFile } from "./run-section.js";
import { sections } from "./sections.js";

/** Minutes of a section. A software GPU's kernels are compiled on the CPU, and compute there. */
const LIMIT = { card: 8, rehearsal: 30 };
const DEVICES: Readonly<Record<string, CheckGpu>> = { cuda: "cuda", vulkan: "vulkan", cpu: false };
const usage = `yarn gpu-check [options]      all sections that are not done yet

  --first               what matters most, in ${FIRST_MINUTES} minutes: one file to send, and a page that compares it with what
                        is expected
  --minutes N           with --first: all of it in so many
  --list                names the sections
  --sections A,B        these alone
  --again               also what is done
  --out FOLDER          where a file of each section is written (default build/gpu-check, with --first
                        build/gpu-check-first)
  --on DEVICE           cuda (default); vulkan, a software GPU, and cpu are rehearsals with tiny shapes: whether all of
                        it runs, not how fast. Without --first a section of a rehearsal may take ${LIMIT.rehearsal} minutes in place
                        of ${LIMIT.card}
  --small               tiny shapes on a card too
  --help`;

function parse() {
  try {
    const flag = { type: "boolean", default: false } as const;
    const text = { type: "string" } as const;
    const { values } = parseArgs({
      options: {
        first: flag,
        list: flag,
        again: flag,
        small: flag,
        help: flag,
        sections: text,
        out: text,
        minutes: text,
        on: { ...text, default: "cuda" },
      },
    });
    const { first, on, sections: names } = values;
    const gpu = DEVICES[on];
    if (gpu === undefined) throw new UsageError(`--on: there are ${Object.keys(DEVICES).join(", ")}`);
    if (first && names !== undefined) throw new UsageError("--first has sections of its own: leave --sections out");
    if (!first && values.minutes !== undefined) throw new UsageError("--minutes goes with --first");
    const minutes = Number(values.minutes ?? FIRST_MINUTES);
    if (!(minutes > 0)) throw new UsageError("--minutes: give a number above 0");
    const asked = names?.split(",");
    const unknown = asked?.find((name) => !sections.some((one) => one.name === name));
    if (unknown !== undefined) {
      throw new UsageError(
        `--sections: there is no ${unknown}; there are ${sections.map(({ name }) => name).join(", ")}`,
      );
    }
    const small = values.small || gpu !== "cuda";
    const folder = `gpu-check${first ? "-first" : ""}${small ? "-rehearsal" : ""}`;
    return {
      first,
      list: values.list,
      help: values.help,
      again: values.again,
      gpu,
      small,
      minutes,
      out: resolve(values.out ?? join(packageRoot, "build", folder)),
      chosen: sections.filter(({ name }) => asked?.includes(name) ?? true),
    };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${messageOf(error).split(".")[0]}; yarn gpu-check --help lists the options`);
  }
}

async function main(): Promise<void> {
  const { first, list, help, again, gpu, small, minutes, out, chosen } = parse();
  if (help) return void console.log(usage);
  if (list) {
    for (const { name, about } of first ? firstSections : sections) console.log(`${name.padEnd(14)} ${about}`);
    return;
  }
  mkdirSync(out, { recursive: true });
  process.once("SIGINT", () => process.exit(130));
  if (first) return runFirst({ gpu, small, out, again, minutes });
  let unfinished = 0;
  for (const section of chosen) {
    const file = join(out, `${section.name}.json`);
    if (!again && sectionFile(file)?.state === "done") {
      console.log(`${section.name}: done before (${file})`);
      continue;
    }
    console.log(`${section.name}: ${section.about}`);
    const most = gpu === "cuda" ? LIMIT.card : LIMIT.rehearsal;
    const came = await runSection({ section, file, gpu, small, minutes: most });
    if (came !== "done") unfinished++;
    console.log(`${section.name}: ${came} (${file})`);
  }
  if (unfinished > 0) throw new HoneError(`${unfinished} of ${chosen.length} sections did not end well`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  console.error(`gpu-check: ${error.message}`);
  process.exitCode = error.exitCode;
}
