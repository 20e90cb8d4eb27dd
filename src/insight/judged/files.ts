/** What the commands that judge a trajectory file share: the file, its task, a judge with the verdicts so far, the new file. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { McpConfig } from "../../agent/mcp/plan.js";
import { serverLogs, withServers } from "../../agent/servers.js";
import type { Config } from "../../core/config/config.js";
import { readTrajectories, type Trajectory } from "../../core/rollout/trajectory.js";
import { openVerdictFile } from "../../core/run/verdicts.js";
import type { AnyTask } from "../../core/task/task.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { LineFile } from "../../core/util/files.js";
import { toJson } from "../../core/util/json.js";
import { hone } from "../../core/util/program.js";
import { runsHere } from "../../judge/judging-options.js";
import { openJudge } from "../../judge/reward/judge.js";
import { type JudgeConfig, requireJudge, VERDICTS_FILE } from "../../judge/reward/judge-options.js";
import {
  type JudgeMachine,
  type LocalJudge,
  type LocalJudgeConfig,
  openLocalJudge,
  planLocalJudge,
} from "../../judge/reward/local-judge.js";
import { loadTask } from "../../scenarios/load.js";

export interface FileIo {
  readonly signal: AbortSignal;
  readonly log: (text: string) => void;
}

export type FileConfig = JudgeConfig &
  LocalJudgeConfig &
  JudgeMachine &
  McpConfig &
  Pick<Config, "home" | "task" | "taskTimeout" | "seed" | "out" | "judgeCache"> & {
    readonly file: NonNullable<Config["file"]>;
  };

/**
 * @param ending of the new file's default name
 * @throws UsageError
 */
export async function filesOf(
  config: FileConfig,
  io: FileIo,
  ending: string,
): Promise<{ file: string; out: string; task: AnyTask }> {
  const file = resolve(config.file);
  if (!existsSync(file))
    throw new UsageError(`judge: there is no file ${file}; \`${hone("rollout")}\` writes such files`);
  const out = resolve(config.out ?? file.replace(/(\.jsonl)?$/, ending));
  if (out === file) throw new UsageError(`--out ${config.out}: that is the file to be judged; give another name`);
  const plain = await loadTask(config.task, config.taskTimeout);
  const { task } = await withServers(config, plain, config.task, serverLogs(config.home), io);
  requireJudge(config, "this");
  return { file, out, task };
}

/**
 * Opens a judge, which remembers the verdicts of the home folder.
 * @param beside whether an engine plays while it judges
 */
export async function openHomeJudge(
  config: JudgeConfig & LocalJudgeConfig & JudgeMachine & Pick<Config, "home"> & { readonly judgeCache?: boolean },
  why: string,
  beside: boolean,
  { log, signal }: FileIo,
) {
  const { cache, close: closeCache } = openVerdictFile(join(config.home, VERDICTS_FILE));
  let local: LocalJudge | undefined;
  const close = async () => {
    await local?.close();
    closeCache();
  };
  try {
    if (runsHere(config)) {
      local = await openLocalJudge(await planLocalJudge(config, log, signal), config, beside, log);
    }
    const known = config.judgeCache === false ? undefined : cache;
    return { judge: openJudge(config, why, known, undefined, log, local), local, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Writes what was judged, of all or until the judge could not be asked any more.
 * @param count in words
 * @throws HoneError in the latter case
 */
export async function writeJudged<T>(
  asked: readonly Promise<T>[],
  out: string,
  rowsOf: (done: readonly T[]) => readonly object[],
  count: (done: readonly T[]) => string,
): Promise<T[]> {
  const settled = await Promise.allSettled(asked);
  const done = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const file = new LineFile(out, `the file ${out}`);
  try {
    for (const row of rowsOf(done)) file.add(toJson(row));
  } finally {
    file.end();
  }
  const failed = settled.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
  if (!failed) return done;
  if (!(failed.reason instanceof HoneError)) throw failed.reason;
  throw new HoneError(
    `${failed.reason.message}. ${count(done)} were judged until then and are in ${out}; the same command goes on with the rest`,
  );
}

/** The rollouts of each scenario, in file order. */
export async function readGroups(file: string, task: string): Promise<[scenario: string, group: Trajectory[]][]> {
  const groups = new Map<string, Trajectory[]>();
  for await (const trajectory of readTrajectories(file)) {
    if (trajectory.task !== task) {
      throw new HoneError(`${file} has rollouts of the task ${trajectory.task}, not ${task}; give it with --task`);
    }
    const group = groups.get(trajectory.scenario.id) ?? [];
    groups.set(trajectory.scenario.id, group);
    group.push(trajectory);
  }
  if (groups.size === 0) throw new HoneError(`${file} is empty: there is nothing to judge`);
  return [...groups];
}
