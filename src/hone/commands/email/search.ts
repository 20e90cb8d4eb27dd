/** `yarn hone search`: runs the search_inbox tool by hand. */

import { ToolError } from "../../../core/task/task.js";
import { HoneError } from "../../../core/util/errors.js";
import { type Paint, painter, printable } from "../../../core/util/text.js";
import { mailDatabasePath } from "../../../email/database.js";
import { openMailDatabase } from "../../../email/reader.js";
import type { MailHit } from "../../../email/search.js";
import { defineCommand } from "../../command.js";
import { toolOptions } from "./email-options.js";

function hitText({ messageId, date, subject, snippet }: MailHit, paint: Paint): string {
  const when = date?.slice(0, 16) ?? "no date".padEnd(16);
  const marked = printable(snippet).replace(/<b>(.*?)<\/b>/g, (_, word: string) => paint("bold", word));
  return `${when}  ${paint("bold", printable(subject) || "(no subject)")}\n  ${marked}\n  ${paint("dim", printable(messageId))}`;
}

const { id: _, ...own } = toolOptions;

export const searchCommand = defineCommand({
  name: "search",
  own,
  required: ["inbox", "keywords"],
  async run(config, io) {
    const { inbox, keywords, fromAddr, toAddr, sentAfter, sentBefore, maxResults, rank } = config;
    using mail = openMailDatabase(mailDatabasePath(config));
    try {
      const hits = mail.search({ inbox }, { keywords, fromAddr, toAddr, sentAfter, sentBefore, maxResults, rank });
      const paint = painter(io.stream.isTTY);
      io.show(hits.map((hit) => hitText(hit, paint)).join("\n\n") || `no mail of ${inbox} matches`);
      return {
        hits: hits.map(({ messageId, date, subject, snippet }) => ({
          message_id: messageId,
          date: date ?? null,
          subject,
          snippet,
        })),
      };
    } catch (error) {
      if (error instanceof ToolError) throw new HoneError(error.message, { cause: error });
      throw error;
    }
  },
});
