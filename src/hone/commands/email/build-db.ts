/** `yarn build-db`: builds the mail database that the email task searches. */

import type { Config, ConfigOf, OptionOf } from "../../../core/config/config.js";
import { HoneError, UsageError } from "../../../core/util/errors.js";
import { clock } from "../../../core/util/text.js";
import {
  type BuildProgress,
  type BuildSource,
  type BuildSummary,
  buildMailDatabase,
} from "../../../email/building/build.js";
import { mailDatabasePath } from "../../../email/database.js";
import { bar, compact } from "../../../insight/report/progress-line.js";
import { fetchDataset } from "../../../machine/hub/dataset.js";
import { HubUnreachable } from "../../../machine/hub/http.js";
import { type HubOptions, hubOptionsOf } from "../../../machine/hub/hub-options.js";
import { downloadLine, Rate } from "../../../machine/hub/progress.js";
import { type CommandIo, defineCommand } from "../../command.js";
import { mailOptions } from "./email-options.js";

type BuildConfig = Config<OptionOf<"build-db">> & ConfigOf<typeof mailOptions>;

/** ART-E's limits, used for its published figures. */
const artRules = { maxBody: 5000, maxRecipients: 30 };

function rulesOf({ hf, maxBody, maxRecipients, oneEvidence }: BuildConfig) {
  return {
    maxBody: maxBody ?? (hf ? artRules.maxBody : 0),
    maxRecipients: maxRecipients ?? (hf ? artRules.maxRecipients : 0),
    oneEvidence: oneEvidence ?? hf,
    dropKnownBad: hf,
  };
}

async function sourceOf(config: BuildConfig, io: CommandIo): Promise<BuildSource> {
  const { from, hf, questions = [] } = config;
  if (hf && from)
    throw new UsageError("--hf and --from exclude each other: build two databases, or give all with --from");
  if (hf) {
    const rate = new Rate();
    const options: HubOptions = {
      ...hubOptionsOf(config),
      signal: io.signal,
      onProgress: (progress) => io.progress.update(() => downloadLine(progress, rate)),
      log: io.log,
    };
    const fetched = (id: string) => fetchDataset(id, options).catch(withOtherWay);
    const paths = await fetched("corbt/enron-emails");
    const asked = questions.length > 0 ? questions : await fetched("corbt/enron_emails_sample_questions");
    io.progress.clear();
    return { kind: "mail", paths, questions: asked, rules: rulesOf(config) };
  }
  if (from) return { kind: "mail", paths: from, questions, rules: rulesOf(config) };
  if (questions.length > 0) throw new UsageError("--questions needs the mail they are about: give --from or --hf");
  return { kind: "synthetic", seed: config.seed, mailboxes: config.mailboxes, names: config.names };
}

/** Adds the alternative for machines without access to the Hub. */
function withOtherWay(error: unknown): never {
  if (!(error instanceof HubUnreachable)) throw error;
  throw new HoneError(`${error.message}, or download the files yourself and give them with --from and --questions`, {
    cause: error,
  });
}

function progressText({ phase, share, read }: BuildProgress, rate: Rate, seconds: number): string {
  const pace = phase === "reading" ? `${compact(read / seconds)} a second` : "";
  const left = rate.of(share, 1)?.left;
  return `${phase} ${bar(share, 20)} ${compact(read)} mails ${pace} ${left === undefined ? "" : `${clock(left)} left`}`;
}

function summaryText(summary: BuildSummary): string {
  const { read, imported, duplicates, skipped, examples, scenarios, questions, derived_ids: derived } = summary;
  const number = (value: number) => value.toLocaleString("en-US");
  const lines = [
    `${summary.db}: ${number(imported)} mails in ${summary.seconds.toFixed(1)} s (${compact(read / summary.seconds)} a second)`,
    `  read        ${number(read)}: imported ${number(imported)}, duplicates ${number(duplicates)}, skipped ${number(read - imported - duplicates)}`,
  ];
  for (const [reason, count] of Object.entries(skipped)) {
    lines.push(`  skipped     ${number(count)} ${reason}, for example ${examples[reason as keyof typeof examples]}`);
  }
  if (derived.no_message_id) lines.push(`  new ids     ${number(derived.no_message_id)} mails had none`);
  if (derived.id_taken) lines.push(`  new ids     ${number(derived.id_taken)} mails had another mail's`);
  if (summary.undated) lines.push(`  undated     ${number(summary.undated)} mails, which no scenario sees`);
  if (questions) {
    const dropped = Object.entries(questions.dropped).map(([reason, count]) => `, ${number(count)} dropped: ${reason}`);
    lines.push(`  questions   ${number(questions.read)}: ${number(questions.kept)} kept${dropped.join("")}`);
  }
  lines.push(`  scenarios   ${number(scenarios.train)} train, ${number(scenarios.test)} test`);
  return lines.join("\n");
}

export const buildDbCommand = defineCommand({
  name: "build-db",
  own: mailOptions,
  async run(config, io) {
    const source = await sourceOf(config, io);
    const begun = performance.now();
    const rates = { reading: new Rate(), indexing: new Rate() };
    const summary = await buildMailDatabase({
      db: mailDatabasePath(config),
      source,
      signal: io.signal,
      onProgress: (progress) => {
        io.progress.update(() => progressText(progress, rates[progress.phase], (performance.now() - begun) / 1000));
      },
    });
    io.log(summaryText(summary));
    return summary;
  },
});
