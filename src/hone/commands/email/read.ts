/** `yarn hone read`: shows one mail, if the mailbox's owner may see it. */

import { HoneError } from "../../../core/util/errors.js";
import { printable } from "../../../core/util/text.js";
import { mailDatabasePath } from "../../../email/database.js";
import { openMailDatabase } from "../../../email/reader.js";
import { defineCommand } from "../../command.js";
import { toolOptions } from "./email-options.js";

const { id } = toolOptions;

export const readCommand = defineCommand({
  name: "read",
  own: { id },
  required: ["inbox", "id"],
  async run(config, io) {
    using mail = openMailDatabase(mailDatabasePath(config));
    const found = mail.read({ inbox: config.inbox }, config.id);
    if (!found) throw new HoneError(`${config.inbox} has no mail with the id ${config.id}`);
    const { messageId, date, subject, from, to, cc, bcc, body } = found;
    const people = Object.entries({ To: to, Cc: cc, Bcc: bcc }).filter(([, list]) => list.length > 0);
    const text = [
      `Date: ${date ?? "unknown"}`,
      `From: ${from}`,
      ...people.map(([name, list]) => `${name}: ${list.join(", ")}`),
      `Subject: ${subject}`,
      `Message-ID: ${messageId}`,
      "",
      body,
    ].join("\n");
    io.log(printable(text));
    return { message_id: messageId, date: date ?? null, subject, from, to, cc, bcc, body };
  },
});
