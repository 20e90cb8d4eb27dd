/**
 * The email agent's three tools, with ART-E's names and arguments. They return compact JSON, since a whole conversation
 * must fit the context of a small model. A model's mistake is a ToolError in one short line.
 */
import { z } from "zod";
import { defineTool, ToolError } from "../core/task/task.js";
import { cutText } from "../core/util/text.js";
import type { MailDatabase, StoredMail } from "./reader.js";
import type { EmailScenario } from "./scenario.js";
import type { Ranking, Viewer } from "./search.js";

/** The environment of the tools on each thread. */
export interface EmailEnv {
  readonly mail: MailDatabase;
  /** How search_inbox matches and orders. */
  readonly rank: Ranking;
}

/** Maximum length of a body in read_email, in UTF-16 units: ART-E's limit for a mail, about 1,300 tokens. */
const MAX_BODY = 5000;

/** Maximum number of addresses in To, Cc and Bcc each in read_email: ART-E's limit for a mail. */
const MAX_ADDRESSES = 30;

const viewerOf = ({ inbox_address, query_date }: EmailScenario): Viewer => ({
  inbox: inbox_address,
  today: query_date,
});

const searchInbox = defineTool({
  name: "search_inbox",
  // True for both rankings, since tools do not depend on the run's.
  description: "Search the subjects and texts of the user's mails.",
  parameters: z.object({
    keywords: z.array(z.string()).describe("A few telling words or short phrases."),
    from_addr: z.string().optional().describe("Sender's address."),
    to_addr: z.string().optional().describe("A recipient's address."),
    sent_after: z.string().optional().describe("First day, YYYY-MM-DD."),
    sent_before: z.string().optional().describe("Last day, YYYY-MM-DD."),
    max_results: z.number().optional().describe("At most 10."),
  }),
  execute(args, { scenario, env }: { scenario: EmailScenario; env: EmailEnv }) {
    const hits = env.mail.search(viewerOf(scenario), {
      keywords: args.keywords,
      fromAddr: args.from_addr,
      toAddr: args.to_addr,
      sentAfter: args.sent_after,
      sentBefore: args.sent_before,
      maxResults: args.max_results,
      rank: env.rank,
    });
    return hits.map(({ messageId, snippet }) => ({ message_id: messageId, snippet }));
  },
});

const readEmail = defineTool({
  name: "read_email",
  description: "Read one mail of the user.",
  parameters: z.object({ message_id: z.string().describe("From search_inbox.") }),
  execute({ message_id }, { scenario, env }: { scenario: EmailScenario; env: EmailEnv }) {
    const mail = env.mail.read(viewerOf(scenario), message_id);
    if (!mail) throw new ToolError(`the user has no mail with the id ${JSON.stringify(cutText(message_id, 100))}`);
    return shown(mail);
  },
});

const returnFinalAnswer = defineTool({
  name: "return_final_answer",
  description: "Answer the user's question. Ends the search.",
  parameters: z.object({
    answer: z.string(),
    reference_message_ids: z.array(z.string()).describe("Mails that hold the answer."),
  }),
  final: true,
  execute: () => "ok",
});

export const emailTools = [searchInbox, readEmail, returnFinalAnswer] as const;

function shown({ messageId, date, subject, from, to, cc, bcc, body }: StoredMail) {
  return {
    message_id: messageId,
    ...(date === undefined ? {} : { date }),
    subject,
    from,
    to: shownAddresses(to),
    ...(cc.length > 0 ? { cc: shownAddresses(cc) } : {}),
    ...(bcc.length > 0 ? { bcc: shownAddresses(bcc) } : {}),
    body:
      body.length > MAX_BODY ? `${cutText(body, MAX_BODY)}\n[cut here: the mail has ${body.length} characters]` : body,
  };
}

function shownAddresses(addresses: readonly string[]): readonly string[] {
  if (addresses.length <= MAX_ADDRESSES) return addresses;
  return [...addresses.slice(0, MAX_ADDRESSES), `and ${addresses.length - MAX_ADDRESSES} more`];
}
