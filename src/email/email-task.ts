/**
 * The email task, hone's flagship: answer a question from one person's mail, as OpenPipe's ART-E does. The mail and the
 * questions come from a database that `yarn build-db` makes.
 */
import { z } from "zod";
import { defineTask, type ScenarioIo, type TaskOptions } from "../core/task/task.js";
import { HoneError } from "../core/util/errors.js";
import { mailDatabasePath } from "./database.js";
import { emailPrompt } from "./prompt.js";
import { type MailDatabase, openMailDatabase } from "./reader.js";
import { emailReward } from "./reward.js";
import type { EmailScenario } from "./scenario.js";
import { emailClaim, shapedReward } from "./shaped.js";
import { type EmailEnv, emailTools } from "./tools.js";

const options = z.object({
  db: z
    .string()
    .min(1)
    .optional()
    .meta({ path: true, description: "mail database; by default mail.db in the home folder" }),
  rank: z
    .enum(["date", "bm25"])
    .default("date")
    .describe("date: all keywords must occur, newest first; bm25: any may, best match first"),
  inbox: z
    .enum(["system", "question"])
    .default("system")
    .describe(
      "where the prompt names address and date: system, before the tools as ART-E does; question, behind them, so that prompts begin alike and that part is computed once",
    ),
  scenarios: z
    .string()
    .min(1)
    .optional()
    .meta({ path: true, description: "file of questions about this mail; by default those in the database" }),
});

/** Fields of a question in a file, as in corbt/enron_emails_sample_questions. */
const questionFields = z.object({
  answer: z.string(),
  message_ids: z.array(z.string().min(1)).min(1),
  inbox_address: z.string().min(1).toLowerCase(),
  query_date: z.iso.date(),
});

/** The questions of a file. @throws HoneError for evidence that is not in the database, or that its inbox does not see */
async function fromQuestions(file: string, given: TaskOptions<typeof options>, mail: MailDatabase, io?: ScenarioIo) {
  const { home, seed } = given;
  const { fromFile } = await import("../machine/dataset/from-file.js");
  const questions = await fromFile(file, { fields: questionFields })({ scenarios: file, home, seed }, io);
  for (const { id, message_ids, inbox_address, query_date } of questions) {
    const missing = message_ids.find((one) => mail.resolveId(one) === undefined);
    if (missing) throw new HoneError(`${file}: the mail ${missing} of the question ${id} is not in the database`);
    if (message_ids.some((one) => mail.read({ inbox: inbox_address, today: query_date }, one))) continue;
    throw new HoneError(
      `${file}: the mail ${message_ids[0]} of the question ${id} is none that ${inbox_address} may see on ${query_date}`,
    );
  }
  return questions;
}

function open({ rank, scenarios: _, inbox: __, ...place }: TaskOptions<typeof options>): EmailEnv {
  return { mail: openMailDatabase(mailDatabasePath(place)), rank };
}

export const emailTask = defineTask<EmailScenario, EmailEnv, typeof options>({
  name: "email",
  description: "Answer questions from a person's mail by searching and reading it.",
  options,
  async scenarios(options, io) {
    using mail = open(options).mail;
    const { scenarios: file, inbox } = options;
    const all = file === undefined ? mail.scenarios() : await fromQuestions(file, options, mail, io);
    // Evidence by the ids that searches return: a question may name a copy that was folded into another mail.
    return all.map((scenario) => ({
      ...scenario,
      message_ids: [...new Set(scenario.message_ids.map((id) => mail.resolveId(id) ?? id))],
      ...(inbox === "question" ? { inbox } : {}),
    }));
  },
  open,
  close: ({ mail }) => mail.close(),
  prompt: emailPrompt,
  tools: emailTools,
  reward: (rollout, scenario, { mail }) => emailReward(rollout, scenario, (id) => mail.resolveId(id)),
  claim: emailClaim,
  // Questions of the synthetic mailbox have facts, and their answers are short and exact.
  freeAnswers: (scenarios) => scenarios.some(({ facts }) => facts === undefined),
  shaped: (rollout, scenario, { mail }, right) => shapedReward(rollout, scenario, (id) => mail.resolveId(id), right),
  expert: async (...about) => (await import("./expert.js")).emailExpert(...about),
});
