/** Where runs are stored, and which run a name selects. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import type { Config, GivenOptions } from "../../core/config/config.js";
import type { RunRecord } from "../../core/run/records.js";
import { STORE_FILE } from "../../core/run/run.js";
import { RunStore } from "../../core/run/store.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { hone } from "../../core/util/program.js";
import { withAbsolutePaths } from "../models/absolute-paths.js";

export interface FoundRun {
  readonly project: string;
  readonly name: string;
  readonly folder: string;
  /** Time of its last change, in milliseconds since 1970. */
  readonly changed: number;
}

/**
 * All runs in the home folder, the newest first.
 * @throws UsageError when home is a file
 */
export function findRuns(home: string): FoundRun[] {
  const isFolder = (path: string) => existsSync(path) && statSync(path).isDirectory();
  if (existsSync(home) && !isFolder(home))
    throw new UsageError(`--home ${home} is a file; give the folder of the runs`);
  const subfolders = (folder: string) =>
    isFolder(folder)
      ? readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
      : [];
  return subfolders(home)
    .flatMap((project) => {
      const models = join(home, project, "models");
      return subfolders(models).flatMap((name) => {
        const folder = resolve(models, name);
        const store = statSync(join(folder, STORE_FILE), { throwIfNoEntry: false });
        if (!store) return [];
        const log = statSync(join(folder, `${STORE_FILE}-wal`), { throwIfNoEntry: false });
        // Opening a run to read it leaves an empty write-ahead log behind: that is no change.
        const written = log && log.size > 0 ? log.mtimeMs : 0;
        return [{ project, name, folder, changed: Math.max(store.mtimeMs, written) }];
      });
    })
    .sort((a, b) => b.changed - a.changed);
}

/**
 * The options of a run that has finished a step; undefined for any other. One that cannot be read has none: whoever opens it
 * says what is wrong.
 */
function optionsOfTrained({ folder }: FoundRun): RunRecord["options"] | undefined {
  try {
    const file = join(folder, STORE_FILE);
    if (RunStore.isNone(file)) return undefined;
    using store = RunStore.read(file);
    const record = store.record();
    return record && store.lastStep().step > 0 ? record.options : undefined;
  } catch (error) {
    if (error instanceof HoneError) return {};
    throw error;
  }
}

/**
 * The run of the given project and name, or the newest. The name may be PROJECT/RUN, as runs are listed.
 *
 * @param trained without a name: the newest that has finished a step
 * @param given the newest trained one of the task that is given comes first, if there is one
 * @throws UsageError when there is none
 */
export function findRun(
  { home, ...asked }: Pick<Config, "home" | "project" | "run">,
  { trained = false, given = {} }: { readonly trained?: boolean; readonly given?: GivenOptions } = {},
): FoundRun {
  const [, of, its] = asked.run?.match(/^([^/]+)\/([^/]+)$/) ?? [];
  const { project = of, run = its } = of === undefined ? asked : { project: of, run: its };
  const all = findRuns(home);
  const meant = all.filter(
    (one) => (project === undefined || one.project === project) && (run === undefined || one.name === run),
  );
  const { task } = withAbsolutePaths(given);
  const ofTask = task === undefined ? undefined : meant.find((one) => optionsOfTrained(one)?.task === task);
  const found = ofTask ?? (trained && run === undefined ? meant.find(optionsOfTrained) : meant[0]);
  if (found) return found;
  const namesOf = (runs: readonly FoundRun[]) => runs.map(({ project, name }) => `${project}/${name}`).join(", ");
  if (meant.length > 0) {
    throw new UsageError(
      `no run in ${resolve(home)} has finished a step yet (${namesOf(meant)}); \`${hone("train")}\` goes on with one, and a run that you name is taken as it is`,
    );
  }
  const names = namesOf(all);
  throw new UsageError(
    run === undefined && project === undefined
      ? `there are no runs in ${resolve(home)} (--home names another folder); \`${hone("train")}\` makes one`
      : `there is no run ${[project, run].filter(Boolean).join("/")} in ${home}; there are ${names || "none"}`,
  );
}

/** The run that `word` names: a folder with a run in it, PROJECT/RUN, or the run's name. Else, and what it throws: as {@link findRun}. */
export function namedRun(
  place: Pick<Config, "home" | "project">,
  word: string | undefined,
  which: { readonly trained?: boolean } = {},
): FoundRun {
  if (word !== undefined && existsSync(join(word, STORE_FILE))) {
    const folder = resolve(word);
    return { project: basename(resolve(folder, "../..")), name: basename(folder), folder, changed: 0 };
  }
  return findRun({ ...place, run: word }, which);
}
