/** Converts questions in the format of corbt/enron_emails_sample_questions to scenarios. */
import { basename } from "node:path";
import { z } from "zod";
import { HoneError } from "../../core/util/errors.js";
import { openParquet } from "../../machine/dataset/parquet.js";
import type { EmailScenario } from "../scenario.js";
import type { MailDatabaseWriter } from "../writer.js";
import { normalAddress } from "./addresses.js";
import { openFile, readingFailed } from "./bytes.js";
import { jsonRows } from "./lines.js";

const questionRow = z.object({
  id: z.union([z.number(), z.bigint(), z.string().min(1)]),
  question: z.string().min(1),
  answer: z.string(),
  message_ids: z.array(z.string().min(1)).min(1),
  how_realistic: z.number().min(0).max(1).nullish(),
  inbox_address: z.string().min(1),
  query_date: z.union([z.iso.date(), z.date()]),
  split: z.enum(["train", "test"]).nullish(),
});

const columns = Object.keys(questionRow.shape);

/** Questions with a wrong or unfindable answer, from ART-E's list for this data set. */
const knownBadIds = new Set([49, 101, 129, 171, 208, 266, 327].map(String));

/** Why a question becomes no scenario; keys of the summary. */
export type DropReason =
  /** A required field is missing or of the wrong type. */
  | "bad_row"
  /** In ART-E's list. */
  | "known_bad"
  /** Several evidence mails, with --one-evidence. */
  | "several_evidence"
  /** An evidence mail is not in the database. */
  | "missing_evidence"
  /** No evidence mail is one that the inbox may see on the day of the question. */
  | "hidden_evidence";

export interface QuestionRules {
  readonly oneEvidence: boolean;
  /** Leave out the ids of ART-E's list, which apply to that one data set only. */
  readonly dropKnownBad: boolean;
}

/** `read` = kept + all dropped. */
export interface QuestionCounts {
  read: number;
  kept: number;
  dropped: Partial<Record<DropReason, number>>;
}

/** The mail that questions are about. */
interface Mails extends Pick<MailDatabaseWriter, "isSeenBy"> {
  /** The id of a mail in the database, if it is there. */
  storedId(messageId: string): string | undefined;
}

async function readRows(path: string): Promise<unknown[]> {
  const file = await openFile(path, () => undefined);
  if (file.kind === "parquet" && !file.isPacked) {
    const parquet = await openParquet(path);
    return await parquet.read(
      columns.filter((column) => parquet.columns.includes(column)),
      0,
      parquet.rows,
    );
  }
  if (file.kind !== "jsonl") throw new HoneError(`${path} holds no questions: give JSON lines or Parquet`);
  const parts: Buffer[] = [];
  for await (const chunk of file.chunks) parts.push(chunk);
  return [...jsonRows(Buffer.concat(parts))];
}

/** Data sets on the Hub have the split in the file's name: `test-00000-of-00001.parquet`. */
function splitOfName(path: string): "train" | "test" {
  return /^test\b/.test(basename(path)) ? "test" : "train";
}

function toScenario(row: z.output<typeof questionRow>, path: string): EmailScenario {
  const { id, question, answer, message_ids, inbox_address, query_date, how_realistic } = row;
  return {
    id: typeof id === "string" ? id : `enron-${id}`,
    split: row.split ?? splitOfName(path),
    question,
    answer,
    message_ids,
    inbox_address: normalAddress(inbox_address) ?? inbox_address,
    query_date: typeof query_date === "string" ? query_date : query_date.toISOString().slice(0, 10),
    ...(typeof how_realistic === "number" ? { how_realistic } : {}),
  };
}

/** Reads files of questions, and counts. */
export function questionReader({ oneEvidence, dropKnownBad }: QuestionRules) {
  const counts: QuestionCounts = { read: 0, kept: 0, dropped: {} };

  function take(row: unknown, path: string, mails: Mails): EmailScenario | DropReason {
    const { success, data } = questionRow.safeParse(row);
    if (!success) return "bad_row";
    if (dropKnownBad && knownBadIds.has(String(data.id))) return "known_bad";
    if (oneEvidence && data.message_ids.length !== 1) return "several_evidence";
    const stored = data.message_ids.map(mails.storedId);
    if (stored.includes(undefined)) return "missing_evidence";
    const scenario = toScenario({ ...data, message_ids: stored as string[] }, path);
    return scenario.message_ids.some((id) => mails.isSeenBy(scenario, id)) ? scenario : "hidden_evidence";
  }

  /**
   * The usable questions of one file.
   *
   * @throws HoneError when the file cannot be read or holds something else
   */
  async function read(path: string, mails: Mails): Promise<EmailScenario[]> {
    const rows = await readRows(path).catch((error: unknown) => {
      throw readingFailed(path, error);
    });
    const scenarios: EmailScenario[] = [];
    for (const row of rows) {
      counts.read++;
      const scenario = take(row, path, mails);
      if (typeof scenario === "string") counts.dropped[scenario] = (counts.dropped[scenario] ?? 0) + 1;
      else scenarios.push(scenario);
    }
    if (rows.length > 0 && counts.dropped.bad_row === counts.read) {
      throw new HoneError(`${path} holds no questions: rows need ${columns.slice(0, -1).join(", ")}`);
    }
    counts.kept += scenarios.length;
    return scenarios;
  }

  return { counts, read };
}
