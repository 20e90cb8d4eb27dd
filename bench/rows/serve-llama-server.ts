/**
 * Conversations over HTTP with `yarn hone serve` and with llama-server: the same model, threads, context and client, as
 * many slots as conversations, flash attention and prompt caches on both sides. The conversations share a system prompt.
 * The model's weights are random, so that no turn ends early: both sides sample equally many tokens.
 *
 * Turns of one request compare the engines and the ways to them. In conversations of three turns, the answers are sent
 * back as text; llama-server makes them into tokens again, and evaluates anew what has become other tokens: with this
 * model's random text that is more than with a sentence.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { startServer } from "../llama-server/server.js";
import { buildLlamaTool } from "../llama-tools.js";
import { compare, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, BenchContext, Row } from "../row.js";

const name = "serve/llama-server";
/** Turns of a conversation, and tokens of each. */
const shapes = [
  { turns: 1, tokens: 48 },
  { turns: 3, tokens: 16 },
];
type Shape = (typeof shapes)[number];
const CONTEXT = 1024;
const SYSTEM = "You help people to find what they look for in their mail. ".repeat(8);

interface Server {
  readonly url: string;
  readonly process: ChildProcess;
  stop(): Promise<void>;
}

/** Seconds of CPU that a process has used. */
function cpuOf({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  // utime and stime, in ticks of 10 ms.
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function startHone(context: BenchContext, model: string, conversations: number): Promise<Server> {
  const args = ["serve", "--model", model, "--port", "0", "--concurrency", conversations, "--context", CONTEXT];
  const gpu = context.gpu === false ? "off" : context.gpu;
  const threads = context.threads === undefined ? [] : ["--threads", context.threads];
  const child = spawn(
    process.execPath,
    [join(packageRoot, "dist/src/cli.js"), ...args, "--gpu", gpu, ...threads].map(String),
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const stop = async () => {
    child.kill("SIGTERM");
    if (child.exitCode === null && child.signalCode === null) await new Promise((end) => child.once("close", end));
  };
  for await (const line of createInterface(child.stdout)) {
    const url = /(http:\/\/127\.0\.0\.1:\d+\/v1)/.exec(line)?.[1];
    if (url !== undefined) return { url, process: child, stop };
  }
  throw new HoneError("yarn hone serve did not start");
}

/** One conversation; returns the number of sampled tokens. */
async function converse(url: string, request: object, topic: string, { turns, tokens }: Shape): Promise<number> {
  const messages: object[] = [{ role: "system", content: SYSTEM }];
  let sampled = 0;
  for (let turn = 1; turn <= turns; turn++) {
    messages.push({ role: "user", content: `${topic}, question ${turn}: who wrote last, and about what?` });
    const answer = await fetch(`${url}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...request, messages, max_tokens: tokens, temperature: 1 }),
    });
    if (!answer.ok) throw new HoneError(`${url} answered ${answer.status}: ${(await answer.text()).slice(0, 200)}`);
    const { choices, usage } = (await answer.json()) as {
      choices: { message: { content: string | null } }[];
      usage: { completion_tokens: number };
    };
    messages.push({ role: "assistant", content: choices[0]?.message.content ?? "" });
    sampled += usage.completion_tokens;
  }
  return sampled;
}

async function compareAt(context: BenchContext, model: string, conversations: number): Promise<Row[]> {
  const engine = await context.load({ model, sequences: conversations, contextPerSequence: CONTEXT, lanes: 1 });
  const { threads } = engine.info;
  const program = await buildLlamaTool("llama-server", context.log);
  const llama = await startServer(program, engine);
  await engine.close();
  const hone = await startHone({ ...context, threads }, model, conversations);
  const rows: Row[] = [];
  let matter = 0;
  const sideOf = (url: string, child: ChildProcess, request: object, shape: Shape) => {
    const all = { cpu: 0, sampled: 0 };
    const play = async () => {
      const before = cpuOf(child);
      const started = performance.now();
      const counts = await Promise.all(
        Array.from({ length: conversations }, () => converse(url, request, `Matter ${matter++}`, shape)),
      );
      const seconds = (performance.now() - started) / 1000;
      const sampled = counts.reduce((sum, count) => sum + count, 0);
      all.cpu += cpuOf(child) - before;
      all.sampled += sampled;
      return sampled / seconds;
    };
    return { all, play };
  };
  try {
    for (const shape of shapes) {
      const sides = () => ({
        ours: sideOf(hone.url, hone.process, { model }, shape),
        theirs: sideOf(`http://127.0.0.1:${llama.port}/v1`, llama.process, { samplers: ["temperature"] }, shape),
      });
      // The first requests allocate, and evaluate the system prompt.
      const warming = sides();
      await warming.ours.play();
      await warming.theirs.play();
      const { ours, theirs } = sides();
      const about = { model: modelName(model), sequences: conversations, unit: "tokens/s" as const, threads };
      const row = await compare(
        context,
        { name: `${name}/${shape.turns === 1 ? "one-turn" : "three-turns"}`, ...about, target: "ratio >= 1" },
        "more",
        { ours: ours.play, theirs: theirs.play },
      );
      const each = ({ all }: typeof ours) => `${((1000 * all.cpu) / all.sampled).toFixed(1)} ms`;
      const note = `CPU time for a sampled token: ours ${each(ours)}, theirs ${each(theirs)}`;
      context.log(note);
      rows.push({ ...row, note });
    }
    return rows;
  } finally {
    await hone.stop();
    await llama.stop();
  }
}

export const bench: Bench = {
  name,
  about: "conversations over HTTP with `yarn hone serve` and with llama-server, 1, 8 and 32 at once",
  models: ["0.5b"],
  async run(context) {
    const model = context.model ?? modelPath("qwen2-0.5b-shape-f16.gguf");
    const rows: Row[] = [];
    for (const conversations of context.sequences ?? [1, 8, 32]) {
      rows.push(...(await compareAt(context, model, conversations)));
    }
    return rows;
  },
};
