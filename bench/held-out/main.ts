/**
 * The held-out scenarios of a run of the email task, played by a Python program through `yarn hone serve`, beside
 * `yarn eval`: the success of the program is to lie within the interval of the evaluation.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { programOf } from "../../src/mcp/index.js";
import { wilson } from "../../src/report/interval.js";
import type { RolloutEnd, Scenario } from "../../src/tasks/index.js";
import { emailTask } from "../../src/tasks/index.js";
import { HoneError, UsageError } from "../../src/util/errors.js";
import { packageRoot } from "../../src/util/paths.js";
import { deriveSeed } from "../../src/util/random.js";
import { MAX_TURNS, Mailbox } from "../agents/mail.js";
import { readArguments } from "../arguments.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { resultsFile } from "../results.js";

const usage = `yarn held-out --home DIR --project NAME --run NAME [options]

  --tool-choice TEXT    auto (default), required, or both: auto,required
  --python FILE         the program's Python (default python3)
  --at-once N           conversations at once (default 8)
  --save                keep the figures in bench/results
  --help`;

const cli = join(packageRoot, "dist/src/cli.js");
const NAMES = ["base", "best"] as const;

interface Column {
  readonly name: string;
  readonly result: { readonly figures: Figures } | null;
}
interface Figures {
  readonly n: number;
  readonly successes: number;
  readonly low: number;
  readonly high: number;
  readonly ends: Readonly<Record<string, number>>;
}
interface Evaluated {
  readonly scenarios: readonly { readonly id: string }[];
  readonly columns: readonly Column[];
}

async function evaluated(where: readonly string[]): Promise<Evaluated> {
  const args = [cli, "eval", ...where, "--checkpoint", "base,best", "--n", "100", "--json"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  if (code !== 0) throw new HoneError(`yarn eval ended with code ${code}: ${text.trim()}`);
  return JSON.parse(text) as Evaluated;
}

/** A line of the program. */
type Said = { readonly id: string } & (
  | { readonly turn: number; readonly name: string; readonly arguments: Record<string, unknown> }
  | { readonly turns: number; readonly end: RolloutEnd }
);

interface Play {
  readonly url: string;
  readonly model: string;
  readonly scenarios: readonly Scenario[];
  readonly db: string;
  readonly toolChoice: string;
  readonly atOnce: number;
  readonly python: string;
}

/** Of a turn, as in `yarn start`'s run: src/config/defaults.ts. */
const MAX_TOKENS = 256;

async function play({ url, model, scenarios, db, toolChoice, atOnce, python }: Play): Promise<Figures> {
  const options = { db, rank: "date" as const, seed: 1, home: "." };
  const env = await emailTask.open(options as never);
  const client = spawn(python, [join(packageRoot, "bench/held-out/client.py")], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, OPENAI_BASE_URL: url, OPENAI_API_KEY: "none" },
  });
  const say = (line: object) => client.stdin.write(`${JSON.stringify(line)}\n`);
  const never = new AbortController().signal;
  const mailboxes = new Map(scenarios.map((scenario) => [scenario.id, new Mailbox(scenario, env, never)]));
  const tools = mailboxes.values().next().value?.tools;
  const request = { model, max_tokens: MAX_TOKENS, tool_choice: toolChoice };
  say({ request, tools, turns: MAX_TURNS, at_once: atOnce, scenarios: scenarios.length });
  for (const [index, [id, { messages }]] of [...mailboxes].entries()) {
    say({ id, messages, seed: deriveSeed("held-out", index) });
  }
  const ends: Record<string, number> = {};
  let successes = 0;
  let left = scenarios.length;
  for await (const text of createInterface(client.stdout)) {
    const line = JSON.parse(text) as Said;
    const mailbox = mailboxes.get(line.id) as Mailbox;
    if ("name" in line) {
      mailbox.turns = line.turn;
      const answer = await mailbox.call(line.name, line.arguments);
      say({ id: line.id, text: answer, over: mailbox.over, answered: mailbox.answered });
      continue;
    }
    ends[line.end] = (ends[line.end] ?? 0) + 1;
    const reward = await mailbox.reward();
    if (typeof reward === "object" && reward.success) successes++;
    if (--left === 0) client.stdin.end();
  }
  const code = client.exitCode ?? (await new Promise((resolve) => client.once("close", resolve)));
  await emailTask.close?.(env as never);
  if (code !== 0 || left > 0) throw new HoneError(`the Python program ended with code ${code}, ${left} scenarios left`);
  return { n: scenarios.length, successes, ...wilson(successes, scenarios.length), ends };
}

/** `yarn hone serve` on a free port. */
async function served(where: readonly string[]): Promise<{ url: string; server: ChildProcess }> {
  const server = spawn(process.execPath, [cli, "serve", ...where, "--port", "0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface(server.stdout)) {
    const url = /(http:\/\/127\.0\.0\.1:\d+\/v1)/.exec(line)?.[1];
    if (url !== undefined) return { url, server };
  }
  throw new HoneError("yarn hone serve did not start");
}

const share = ({ successes, n, low, high }: Figures) =>
  `${successes} of ${n}, interval ${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)} %`;

const CHOICES = ["auto", "required"];

function parse() {
  const read = () =>
    parseArgs({
      options: {
        home: { type: "string", default: ".hone" },
        project: { type: "string", default: "email" },
        run: { type: "string", default: "demo" },
        "tool-choice": { type: "string", default: "auto" },
        python: { type: "string", default: "python3" },
        "at-once": { type: "string", default: "8" },
        save: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    }).values;
  const values = readArguments(read, "yarn held-out");
  const atOnce = Number(values["at-once"]);
  if (!Number.isInteger(atOnce) || atOnce < 1) {
    throw new UsageError(`--at-once: ${values["at-once"]} is no whole number above 0`);
  }
  const toolChoices = values["tool-choice"].split(",");
  const unknown = toolChoices.find((one) => !CHOICES.includes(one));
  if (unknown !== undefined) throw new UsageError(`--tool-choice: ${unknown} is none of ${CHOICES.join(", ")}`);
  if (!programOf(values.python, process.cwd(), process.env.PATH)) {
    throw new UsageError(`--python: there is no program ${values.python}`);
  }
  return { ...values, atOnce, toolChoices };
}

async function main(): Promise<void> {
  const values = parse();
  if (values.help) return console.log(usage);
  const place = ["--home", values.home, "--project", values.project];
  const evaluation = await evaluated([...place, "--run", values.run]);
  const db = join(values.home, "mail.db");
  const all = await emailTask.scenarios({ db, rank: "date", seed: 1, home: values.home } as never);
  const scenarios = evaluation.scenarios.map(({ id }) => {
    const found = all.find((one) => one.id === id);
    if (!found) throw new HoneError(`${db} has no scenario ${id}`);
    return found;
  });
  const { url, server } = await served([values.run, ...place]);
  const rows: object[] = [];
  try {
    for (const toolChoice of values.toolChoices) {
      for (const name of NAMES) {
        const model = name === "base" ? "base" : values.run;
        const { python, atOnce } = values;
        const played = await play({ url, scenarios, db, python, atOnce, model, toolChoice });
        const figures = evaluation.columns.find((column) => column.name === name)?.result?.figures;
        if (!figures) throw new HoneError(`yarn eval has no figures of ${name}`);
        const rate = played.successes / played.n;
        const within = rate >= figures.low && rate <= figures.high;
        console.log(
          `${name}: yarn eval ${share(figures)}; through serve, tool_choice ${toolChoice}, ${share(played)}${within ? "" : "  (outside)"}`,
        );
        console.log(`  ends: yarn eval ${JSON.stringify(figures.ends)}, through serve ${JSON.stringify(played.ends)}`);
        rows.push({ name, toolChoice, evaluated: figures, served: played, within });
      }
    }
  } finally {
    server.kill("SIGTERM");
    await new Promise((resolve) => server.once("close", resolve));
  }
  if (!values.save) return;
  const file = resultsFile("held-out", hardwareOf(undefined));
  writeFileSync(
    file,
    `${JSON.stringify({ hardware: hardwareOf(undefined), versions: versionsOf(undefined), rows }, null, 2)}\n`,
  );
  console.log(`saved to ${file}`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  console.error(`held-out: ${error.message}`);
  process.exitCode = error.exitCode;
}
