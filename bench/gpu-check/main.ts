/**
 * `yarn gpu-check`: tests and measures hone on a card, in sections of at most eight minutes each, without a network.
 * Every section runs in its own process and writes its results at once; the next call continues after the last section.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { HoneError, messageOf, UsageError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";
import type { Section } from "./context.js";
import { sections } from "./sections.js";

/** Minutes of a section. A rehearsal's device compiles its kernels on the CPU, and computes there. */
const LIMIT = { card: 8, rehearsal: 30 };
const usage = `yarn gpu-check [options]      all sections that are not done yet

  --list                names the sections
  --sections A,B        these alone
  --again               also what is done
  --out FOLDER          where a file of each section is written (default build/gpu-check)
  --rehearse            on a software GPU (Vulkan), with tiny shapes: whether all of it runs, not how fast; a section may
                        take ${LIMIT.rehearsal} minutes in place of ${LIMIT.card}
  --help`;

function parse() {
  try {
    const flag = { type: "boolean", default: false } as const;
    const { values } = parseArgs({
      options: {
        list: flag,
        again: flag,
        rehearse: flag,
        help: flag,
        sections: { type: "string" },
        out: { type: "string" },
      },
    });
    const asked = values.sections?.split(",");
    const unknown = asked?.find((name) => !sections.some((one) => one.name === name));
    if (unknown !== undefined) {
      throw new UsageError(
        `--sections: there is no ${unknown}; there are ${sections.map(({ name }) => name).join(", ")}`,
      );
    }
    const folder = join("build", values.rehearse ? "gpu-check-rehearsal" : "gpu-check");
    return {
      ...values,
      out: resolve(values.out ?? join(packageRoot, folder)),
      chosen: sections.filter(({ name }) => asked?.includes(name) ?? true),
    };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${messageOf(error).split(".")[0]}; yarn gpu-check --help lists the options`);
  }
}

const stateOf = (file: string): string | undefined =>
  existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as { state: string }).state : undefined;

/** @returns the section's outcome */
function runSection({ name }: Section, file: string, rehearse: boolean): Promise<string> {
  const script = fileURLToPath(new URL("./section.js", import.meta.url));
  const args = [script, name, file, rehearse ? "vulkan" : "cuda", rehearse ? "1" : "0"];
  // Its own process group, so that all of it can be killed.
  const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"], detached: true });
  const end = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  };
  process.once("exit", end);
  const minutes = rehearse ? LIMIT.rehearsal : LIMIT.card;
  return new Promise((settle) => {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      end();
    }, minutes * 60_000);
    child.once("close", (code) => {
      clearTimeout(timer);
      process.off("exit", end);
      settle(late ? `cut off after ${minutes} minutes` : code === 0 ? "done" : "failed");
    });
  });
}

async function main(): Promise<void> {
  const { list, help, again, rehearse, out, chosen } = parse();
  if (help) return void console.log(usage);
  if (list) {
    for (const { name, about } of sections) console.log(`${name.padEnd(12)} ${about}`);
    return;
  }
  mkdirSync(out, { recursive: true });
  process.once("SIGINT", () => process.exit(130));
  let unfinished = 0;
  for (const section of chosen) {
    const file = join(out, `${section.name}.json`);
    if (!again && stateOf(file) === "done") {
      console.log(`${section.name}: done before (${file})`);
      continue;
    }
    console.log(`${section.name}: ${section.about}`);
    const came = await runSection(section, file, rehearse);
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
