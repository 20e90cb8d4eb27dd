/** `yarn hone scenarios import` without its output: scenarios and trajectories for imitation from logs. */
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Config } from "../core/config/config.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { CallRecord, ChatMessage } from "../core/task/task.js";
import { HoneError, UsageError } from "../core/util/errors.js";
import { writeDurably } from "../core/util/files.js";
import { toJson } from "../core/util/json.js";
import { readScenarioFile, type ScenarioRow, withReviews, writeScenarioFile } from "./file.js";
import { MASKED, Mask, type Masked, NOT_MASKED } from "./logs/mask.js";
import { readLogs } from "./logs/read.js";
import type { LoggedCall } from "./logs/records.js";
import { count, sidesOf } from "./pieces.js";

export type ImportConfig = Pick<Config, "out" | "seed" | "testShare" | "mask" | "maskWords"> & {
  readonly logs: NonNullable<Config["logs"]>;
};

export type ImportSummary = Awaited<ReturnType<typeof importLogs>>;

const TEST_SHARE = 0.2;

/** @throws UsageError for a kind that is unknown */
function kindsOf(mask: readonly string[] | undefined): readonly Masked[] {
  if (mask === undefined) return [];
  if (mask.length === 1 && mask[0] === "all") return MASKED;
  const unknown = mask.find((one) => !(MASKED as readonly string[]).includes(one));
  if (unknown !== undefined) throw new UsageError(`--mask ${unknown}: give all, or some of ${MASKED.join(", ")}`);
  return mask as readonly Masked[];
}

const questionOf = (messages: readonly ChatMessage[]) => messages.find(({ role }) => role === "user")?.content ?? "";

/** Calls with the results that follow them, in order. */
function callsOf(messages: readonly ChatMessage[]): CallRecord[] {
  const records: CallRecord[] = [];
  let turn = 0;
  let waiting: CallRecord[] = [];
  for (const message of messages) {
    if (message.role === "assistant") {
      turn++;
      waiting = (message.tool_calls ?? []).map(({ name, arguments: args }) => ({
        turn,
        name,
        arguments: args,
        outcome: "ok" as const,
        result: null,
      }));
      records.push(...waiting);
    } else if (message.role === "tool") {
      const of = waiting.findIndex(({ name }) => name === message.name);
      const [record] = of < 0 ? [] : waiting.splice(of, 1);
      if (record) record.result = message.content;
    }
  }
  return records;
}

const hash = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 12);

/** Why a conversation is no scenario; undefined for one question with an answer in words. */
function lackOf({ messages }: LoggedCall): string | undefined {
  if (messages.filter(({ role }) => role === "user").length > 1) return "several_questions";
  return messages.at(-1)?.content.trim() === "" ? "no_answer" : undefined;
}

function trajectoryOf(call: LoggedCall, scenario: string, index: number, split: "train"): Trajectory {
  const messages = [...call.messages];
  const turns = messages.filter(({ role }) => role === "assistant").length;
  const solved = call.demonstration;
  return {
    id: `${scenario}/${index}`,
    task: "imported",
    scenario: { id: scenario, split, question: questionOf(messages) },
    index,
    seed: 0,
    player: { kind: "api", model: call.model ?? "unknown", adapter: null, temperature: 1 },
    messages,
    tools: [...call.tools],
    calls: callsOf(messages),
    end: "answered",
    turns,
    maxTurns: turns,
    // Whether a logged conversation went well nobody has said.
    reward: { reward: solved ? 1 : 0, success: solved, parts: {} },
    completionTokens: 0,
    promptTokens: 0,
    seconds: { total: 0, player: 0, queue: 0, tools: 0 },
  };
}

async function masked(
  mask: Mask,
  calls: readonly LoggedCall[],
  signal: AbortSignal | undefined,
): Promise<LoggedCall[]> {
  const done: LoggedCall[] = [];
  for (const call of calls) {
    // The event loop turns once a conversation, which is when a signal of the process arrives.
    await new Promise((resolve) => setImmediate(resolve));
    signal?.throwIfAborted();
    done.push({
      ...call,
      id: mask.text(call.id),
      messages: call.messages.map((message) => mask.message(message)),
      tools: call.tools.map((tool) => mask.tool(tool)),
    });
  }
  return done;
}

/** @throws HoneError when nothing can be used, or it is interrupted; both files are then as they were */
export async function importLogs(config: ImportConfig, signal?: AbortSignal) {
  const mask = new Mask(kindsOf(config.mask), config.maskWords);
  const { conversations: read, records, joined, unused } = await readLogs(config.logs.map((file) => resolve(file)));
  if (read.length === 0) {
    const why = Object.entries(unused).map(([reason, n]) => `${reason} ${n}`);
    throw new HoneError(
      `there is no conversation in ${config.logs.join(", ")} that can be used: ${why.join(", ") || "no records"}`,
    );
  }
  const conversations = await masked(mask, read, signal);
  const questions = conversations.map(({ messages }) => questionOf(messages));
  // One session is on one side, and so are all conversations that begin with the same question.
  const sides = sidesOf(
    conversations.map(({ session }, i) => ({
      text: questions[i] as string,
      entity: session ?? `question ${questions[i]}`,
    })),
    config.testShare ?? TEST_SHARE,
    config.seed,
  );
  const rows = new Map<string, ScenarioRow>();
  const lacking: Record<string, number> = {};
  const trajectories: Trajectory[] = [];
  const members = new Map<string, number>();
  let heldOut = 0;
  for (const [i, call] of conversations.entries()) {
    const question = questions[i] as string;
    const { split } = sides[i] as (typeof sides)[number];
    const id = `log-${hash(question)}`;
    const lack = lackOf(call);
    if (lack !== undefined) count(lacking, lack);
    else if (!rows.has(id)) {
      const tools = call.tools.map((tool) => tool.function.name);
      const answer = call.messages.at(-1)?.content ?? "";
      const provenance = {
        source: "log",
        record: call.id,
        written_by: call.model ?? "unknown",
        demonstration: call.demonstration,
      };
      rows.set(id, { id, split, question, answer, tools, provenance });
    }
    if (split === "test") heldOut++;
    else {
      const index = members.get(id) ?? 0;
      members.set(id, index + 1);
      trajectories.push(trajectoryOf(call, id, index, split));
    }
  }
  const out = resolve(config.out ?? "imported");
  const [scenariosFile, trajectoriesFile] = [join(out, "scenarios.jsonl"), join(out, "trajectories.jsonl")];
  mkdirSync(out, { recursive: true });
  const file = withReviews([...rows.values()], readScenarioFile(scenariosFile));
  writeScenarioFile(scenariosFile, file);
  writeDurably(trajectoriesFile, trajectories.map((one) => `${toJson(one)}\n`).join(""));
  const side = (split: string) => file.kept.filter((row) => row.split === split).length;
  return {
    records,
    /** Records that are earlier turns of a conversation. */
    joined,
    conversations: conversations.length,
    unused,
    train: side("train"),
    test: side("test"),
    /** Conversations that give no scenario: of several questions, or without an answer in words. */
    without_scenario: lacking,
    trajectories: trajectories.length,
    /** Conversations that are not to be imitated: their question is for tests. */
    held_out: heldOut,
    /** Different texts that were masked, by kind. */
    masked: mask.counts,
    /** What no mask finds; where something was to be masked. */
    ...(config.mask || config.maskWords ? { not_masked: NOT_MASKED } : {}),
    scenarios_file: scenariosFile,
    trajectories_file: trajectoriesFile,
  };
}
