/**
 * Builds a mail database: imports mail from any source, then the questions, into one file that appears when complete.
 * Every message read is counted once: imported, duplicate, or skipped with a named reason.
 */
import { statSync } from "node:fs";
import { setImmediate as breathe } from "node:timers/promises";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { headOf } from "../import/bytes.js";
import type { ImportRules, Skipped, SkipReason } from "../import/found.js";
import { parse } from "../import/parse.js";
import { type QuestionCounts, type QuestionRules, questionReader } from "../import/questions.js";
import { findSource, inSources, type Source } from "../import/sources.js";
import { hasDerivedId, type Mail } from "../mail.js";
import type { EmailScenario } from "../scenario.js";
import { applicationId } from "../schema.js";
import type { NameSet } from "../synthetic/pools.js";
import { syntheticWorld } from "../synthetic/world.js";
import { type MailDatabaseWriter, openMailDatabaseWriter } from "../writer.js";

/** Source of the database's content. */
export type BuildSource =
  | { readonly kind: "synthetic"; readonly seed: number; readonly mailboxes: number; readonly names?: NameSet }
  | {
      readonly kind: "mail";
      /** At least one. */
      readonly paths: readonly string[];
      readonly questions: readonly string[];
      readonly rules: ImportRules & QuestionRules;
    };

/** Progress of a build. */
export interface BuildProgress {
  readonly phase: "reading" | "indexing";
  /** Share of this phase that is done, 0 to 1. */
  readonly share: number;
  /** Messages read so far. */
  readonly read: number;
}

export interface BuildOptions {
  /** Path of the database. An existing one is replaced. */
  readonly db: string;
  readonly source: BuildSource;
  readonly signal?: AbortSignal;
  onProgress?(progress: BuildProgress): void;
  /** Replaced in tests. */
  readonly openWriter?: (file: string) => MailDatabaseWriter;
}

export interface BuildSummary {
  /** Equals imported + duplicates + skipped. */
  read: number;
  imported: number;
  duplicates: number;
  skipped: Partial<Record<SkipReason, number>>;
  scenarios: { train: number; test: number };
  seconds: number;
  db: string;
  /** Number of imported mails that got an id from hone: they had none, or another mail had it. */
  derived_ids: { no_message_id: number; id_taken: number };
  /** Number of imported mails without a date, which nobody sees who asks on some day. */
  undated: number;
  /** The first skipped message for each reason. */
  examples: Partial<Record<SkipReason, string>>;
  /** Only when questions were given. */
  questions?: QuestionCounts;
}

/** Refuses to replace a file that is not a mail database, in case --db is mistyped. */
async function checkTarget(file: string): Promise<void> {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isDirectory()) throw new HoneError(`${file} is a folder: give --db the name of a file in it`);
  if (found === undefined || found.size === 0) return;
  const head = await headOf(file).catch((error: unknown) => {
    throw new HoneError(`${file} is there but cannot be read: ${messageOf(error)}`, { cause: error });
  });
  // SQLite's file format, 1.3: the header has 100 bytes, and the application's id is at byte 68.
  const isDatabase = head.length >= 100 && head.toString("latin1", 0, 15) === "SQLite format 3";
  if (!isDatabase || head.readUInt32BE(68) !== applicationId) {
    throw new HoneError(`${file} is there and is no mail database; it is left alone, give --db another name`);
  }
}

/**
 * Builds a database.
 *
 * @throws HoneError when a source cannot be read or holds no mail, or the database cannot be written; the signal's
 * reason when it is aborted. An existing database then stays unchanged, and no other file is left.
 */
export async function buildMailDatabase(options: BuildOptions): Promise<BuildSummary> {
  const { db, source, signal, onProgress, openWriter = openMailDatabaseWriter } = options;
  const started = performance.now();
  const sources: Source[] = [];
  if (source.kind === "mail") for (const path of source.paths) sources.push(await findSource(path));
  await checkTarget(db);
  const writer = openWriter(db);
  const summary: BuildSummary = {
    read: 0,
    imported: 0,
    duplicates: 0,
    skipped: {},
    scenarios: { train: 0, test: 0 },
    seconds: 0,
    db,
    derived_ids: { no_message_id: 0, id_taken: 0 },
    undated: 0,
    examples: {},
  };
  const report = (phase: BuildProgress["phase"], share: number) => onProgress?.({ phase, share, read: summary.read });

  function add(mail: Mail): void {
    summary.read++;
    const added = writer.add(mail);
    if (added === "duplicate") {
      summary.duplicates++;
      return;
    }
    if (added === "id_taken") summary.derived_ids.id_taken++;
    else if (hasDerivedId(mail)) summary.derived_ids.no_message_id++;
    summary.imported++;
    if (mail.date === undefined) summary.undated++;
  }

  function skip({ reason, name }: Skipped): void {
    summary.read++;
    summary.skipped[reason] = (summary.skipped[reason] ?? 0) + 1;
    summary.examples[reason] ??= name;
  }

  function addScenarios(scenarios: readonly EmailScenario[]): void {
    writer.addScenarios(scenarios);
    for (const { split } of scenarios) summary.scenarios[split]++;
  }

  async function generate({ seed, mailboxes, names = "default" }: BuildSource & { kind: "synthetic" }): Promise<void> {
    let done = 0;
    for (const { mails, scenarios } of syntheticWorld({ seed, mailboxes, names })) {
      for (const mail of mails) add(mail);
      addScenarios(scenarios);
      report("reading", ++done / mailboxes);
      await breathe();
      signal?.throwIfAborted();
    }
  }

  /** The id of a mail in the database: data sets agree on ids, but not on their angle brackets. */
  function storedId(messageId: string): string | undefined {
    const bare = messageId.replace(/^<(.*)>$/, "$1");
    return [messageId, `<${bare}>`, bare].find((id) => writer.hasMessage(id));
  }

  function noMail(paths: readonly string[]): HoneError {
    const reasons = Object.entries(summary.skipped).map(
      ([reason, count]) => `${count} ${reason} (${summary.examples[reason as SkipReason]})`,
    );
    return new HoneError(
      `no mail found in ${paths.join(", ")}${reasons.length > 0 ? `; skipped: ${reasons.join(", ")}` : ""}`,
    );
  }

  async function read({ paths, questions, rules }: BuildSource & { kind: "mail" }): Promise<void> {
    const progress = { done: 0, total: 0 };
    for await (const found of inSources(sources, progress)) {
      signal?.throwIfAborted();
      for (const one of found) {
        // On this thread: a mail of most takes less than to hand it to another.
        const mail = await parse(one, rules);
        if ("reason" in mail) skip(mail);
        else add(mail);
      }
      report("reading", progress.total > 0 ? Math.min(1, progress.done / progress.total) : 1);
      // Files of a folder are read without a pause in which a signal could arrive.
      await breathe();
    }
    if (summary.imported === 0) throw noMail(paths);

    if (questions.length === 0) return;
    const reader = questionReader(rules);
    summary.questions = reader.counts;
    for (const path of questions) addScenarios(await reader.read(path, { storedId, isSeenBy: writer.isSeenBy }));
  }

  try {
    await (source.kind === "synthetic" ? generate(source) : read(source));
    for (const { done, total } of writer.finishing()) {
      report("indexing", total > 0 ? done / total : 1);
      await breathe();
      signal?.throwIfAborted();
    }
  } finally {
    writer.abort();
  }
  summary.seconds = Math.round(performance.now() - started) / 1000;
  return summary;
}
