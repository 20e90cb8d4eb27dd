/** `yarn hone scenarios generate` without its output: the source and the model that the options name. */
import { join, resolve } from "node:path";
import { serverLogs } from "../agent/servers.js";
import type { Config, OptionOf } from "../core/config/config.js";
import { openVerdictFile } from "../core/run/verdicts.js";
import { HoneError, messageOf, UsageError } from "../core/util/errors.js";
import type { Judge } from "../judge/judge.js";
import { openJudge } from "../judge/reward/judge.js";
import { VERDICTS_FILE } from "../judge/reward/judge-options.js";
import { type GenerateIo, generate } from "./generate.js";
import type { Source } from "./pieces.js";
import { documentSource } from "./sources/documents.js";
import { mailSource } from "./sources/mail.js";
import { serversSource } from "./sources/servers.js";
import { sqlSource } from "./sources/sql.js";

type GenerateConfig = Config<OptionOf<"scenarios generate">>;

export interface GenerateFromIo extends GenerateIo {
  readonly log: (line: string) => void;
}

export type GenerateSummary = Awaited<ReturnType<typeof generateScenarios>>;

const SCENARIOS = 100;
const TEST_SHARE = 0.2;

/** The one source that is named. @throws UsageError for none and for several */
function sourceOf(config: GenerateConfig, judge: Judge, log: (line: string) => void): Source {
  const { db, documents, sql, mcp, inbox, about, toolCalls, home } = config;
  const named = Object.entries({ "--db": db, "--documents": documents, "--sql": sql, "--mcp": mcp }).filter(
    ([, value]) => value !== undefined,
  );
  if (named.length !== 1) {
    const which = named.length === 0 ? "no source is given" : `${named.map(([flag]) => flag).join(" and ")} are given`;
    throw new UsageError(
      `scenarios generate: ${which}; give one of --db (a mail database), --documents (a folder), --sql (an SQLite file) and --mcp (servers)`,
    );
  }
  if (inbox !== undefined && db === undefined) throw new UsageError("--inbox: it is about mail; give --db");
  if (db !== undefined) return mailSource(db, inbox);
  if (documents !== undefined) return documentSource(documents);
  if (sql !== undefined) return sqlSource(sql);
  return serversSource({ config, logs: serverLogs(home), calls: toolCalls, about, judge, log });
}

/** @throws HoneError when the model cannot be asked any more: what was kept until then is in the file */
export async function generateScenarios(config: GenerateConfig, io: GenerateFromIo) {
  const out = resolve(config.out ?? "scenarios.jsonl");
  const { cache, close } = openVerdictFile(join(config.home, VERDICTS_FILE));
  try {
    const judge = openJudge(config, "scenarios generate", cache, undefined, io.log);
    const source = sourceOf(config, judge, io.log);
    const settings = {
      source,
      judge,
      out,
      seed: config.seed,
      about: config.about,
      n: config.n ?? SCENARIOS,
      perPiece: config.perPiece,
      tries: config.tries,
      testShare: config.testShare ?? TEST_SHARE,
    };
    let kept = 0;
    const onProgress: GenerateFromIo["onProgress"] = (progress) => {
      kept = progress.kept;
      io.onProgress(progress);
    };
    try {
      const generated = await generate(settings, { signal: io.signal, onProgress });
      // `cached`: answers that were taken from the cache.
      return { ...generated, ...judge.usage(), cached: judge.cached, file: out, unit: source.unit };
    } catch (error) {
      if (!(error instanceof HoneError) || error instanceof UsageError || kept === 0) throw error;
      throw new HoneError(
        `${messageOf(error)}. ${kept} scenarios were kept until then and are in ${out}; the same command goes on, and asks nothing twice`,
        { cause: error },
      );
    }
  } finally {
    close();
  }
}
