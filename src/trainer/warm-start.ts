/**
 * Supervised learning from trajectory files: a model is shown whole rollouts of an expert, a teacher, or its own best,
 * before it learns from rewards. Tokens that the engine sampled are used unchanged; turns known as messages
 * (an expert, a model behind an API) become tokens through the model's own chat template.
 */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Chat, chatOf, requireWriter } from "../chat/chat.js";
import type { Engine } from "../core/engine/engine.js";
import { type BatchGroup, type BatchSummary, type BatchTrajectory, writeBatch } from "../core/learn/batch.js";
import type { ChatSettings } from "../core/rollout/conversation.js";
import { readTrajectories, type Trajectory } from "../core/rollout/trajectory.js";
import type { TokenRecord } from "../core/rollout/transcript.js";
import { type AnyTask, type ChatMessage, type ToolSchema, toolSchema } from "../core/task/task.js";
import { HoneError } from "../core/util/errors.js";
import { moveDurably } from "../core/util/files.js";
import { tryLock } from "../core/util/lock.js";

/** Tokens of a rollout known as messages: its assistant turns count as sampled, everything else as given. */
export function tokensOfMessages(
  messages: readonly ChatMessage[],
  tools: readonly ToolSchema[],
  { template, write }: Pick<Chat, "template" | "write">,
): TokenRecord {
  const first = messages.findIndex(({ role }) => role === "assistant");
  const opening = messages.slice(0, first < 0 ? messages.length : first);
  const record: TokenRecord = { ids: [], sampled: [], logprobs: [] };
  const add = (ids: readonly number[], sampled: 0 | 1) => {
    for (const id of ids) {
      record.ids.push(id);
      record.sampled.push(sampled);
      record.logprobs.push(0);
    }
  };
  add(template.prompt(opening, tools), 0);
  let between: ChatMessage[] = [];
  let turns = 0;
  for (const message of messages.slice(opening.length)) {
    if (message.role !== "assistant") {
      between.push(message);
      continue;
    }
    if (turns > 0) add(template.delta(opening, tools, between, true), 0);
    add(template.turn(opening, tools, message, write), 1);
    between = [];
    turns++;
  }
  return record;
}

export interface ImitationSource {
  /** Trajectory file. */
  readonly file: string;
  /** An engine with the model to be trained, used as its tokenizer. */
  readonly engine: Engine;
  readonly task: AnyTask;
  /** How it converses. */
  readonly chat: Pick<ChatSettings, "templateArg" | "toolFormat">;
  /** Use only rollouts that solved their scenario. */
  readonly successes: boolean;
}

export interface ImitationBatch extends BatchSummary {
  /** Trajectories in the file. */
  readonly read: number;
  /** Left out: not solved, or longer than the model's context. */
  readonly unsolved: number;
  readonly tooLong: number;
}

/**
 * Converts a trajectory file into a batch file.
 * @throws HoneError when nothing in it can be trained on, and when the model's template would drop its tool calls
 */
export async function writeImitationBatch(source: ImitationSource, batch: string): Promise<ImitationBatch> {
  const { file, task, engine } = source;
  const { model, trainedContext: context } = engine.info;
  const tools = task.tools.map((tool) => toolSchema(tool));
  const chat = chatOf(engine, source.chat);
  const groups = new Map<string, BatchTrajectory[]>();
  let read = 0;
  let unsolved = 0;
  let tooLong = 0;
  for await (const trajectory of readTrajectories(file)) {
    read++;
    if (trajectory.tools === undefined && trajectory.task !== task.name) {
      throw new HoneError(`${file} has rollouts of the task ${trajectory.task}, not ${task.name}; give it with --task`);
    }
    if (source.successes && !trajectory.reward.success) {
      unsolved++;
      continue;
    }
    const own = ownTokens(trajectory, model);
    if (!own && trajectory.messages.some((message) => message.role === "assistant" && message.tool_calls?.length)) {
      requireWriter(chat, model, `the rollout ${trajectory.id} of ${file}`);
    }
    const tokens = own?.tokens ?? tokensOfMessages(trajectory.messages, trajectory.tools ?? tools, chat);
    const branches = own?.branches ?? [];
    if ([tokens, ...branches].some(({ ids }) => ids.length > context)) {
      tooLong++;
      continue;
    }
    const group = groups.get(trajectory.scenario.id) ?? [];
    groups.set(trajectory.scenario.id, group);
    group.push({ tokens, branches, advantage: 1 });
  }
  const summary = await writeBatch(batch, [...groups.values()] satisfies BatchGroup[], { temperature: 1 });
  if (summary.trajectories === 0) {
    const why =
      read === 0 ? "it is empty" : `${unsolved} were not solved, ${tooLong} are longer than ${context} tokens`;
    throw new HoneError(`${file} has nothing to learn from: ${why}`);
  }
  return { ...summary, read, unsolved, tooLong };
}

/** The tokens of a rollout that this very model played: another model's ids have other meanings. */
function ownTokens({ player, tokens, branches = [] }: Trajectory, model: string) {
  if (player.kind !== "engine" || player.model !== model || !tokens) return undefined;
  return { tokens, branches: branches.map((branch) => branch.tokens) };
}

export interface Workplace {
  /** Path for the batch file. */
  readonly batch: string;
  /** An empty folder for the result. */
  readonly draft: string;
  /** Puts the result into the folder, in place of an earlier one. */
  publish(): void;
  /** Removes what is temporary, and gives the folder free. */
  end(): void;
}

/** Without it a folder is no checkpoint: it goes first and comes last. */
const MANIFEST = "manifest.json";

/**
 * A folder for what is learnt from a file, for one process at a time. Until `publish` an earlier result in it stays as it was.
 * @throws HoneError when another process learns into it
 */
export function openWorkplace(folder: string): Workplace {
  mkdirSync(folder, { recursive: true });
  const lock = tryLock(join(folder, ".lock"));
  if (!lock) {
    throw new HoneError(`another process writes to ${folder}; wait until it ends, or give another folder with --out`);
  }
  const aside = join(folder, ".batch");
  const draft = join(aside, "result");
  // A killed process leaves its own.
  rmSync(aside, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  return {
    batch: join(aside, "batch.safetensors"),
    draft,
    publish() {
      rmSync(join(folder, MANIFEST), { force: true });
      const names = readdirSync(draft).sort((a, b) => Number(a === MANIFEST) - Number(b === MANIFEST));
      for (const name of names) {
        rmSync(join(folder, name), { recursive: true, force: true });
        moveDurably(join(draft, name), join(folder, name));
      }
    },
    end() {
      rmSync(aside, { recursive: true, force: true });
      lock.close();
    },
  };
}
