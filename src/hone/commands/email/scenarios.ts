/** `yarn hone scenarios`: lists the questions of a mail database. */

import { printable } from "../../../core/util/text.js";
import { mailDatabasePath } from "../../../email/database.js";
import { type MailDatabase, openMailDatabase } from "../../../email/reader.js";
import type { EmailScenario } from "../../../email/scenario.js";
import { chooseScenarios } from "../../../insight/rollouts-file.js";
import { defineCommand } from "../../command.js";

function lineOf({ id, split, query_date, inbox_address, question }: EmailScenario): string {
  return `${id}  ${split}  ${query_date}  ${inbox_address}\n  ${question}`;
}

/** A scenario with its answer and its evidence mails. */
function wholeText(scenario: EmailScenario, mail: MailDatabase): string {
  const viewer = { inbox: scenario.inbox_address, today: scenario.query_date };
  const evidence = scenario.message_ids.map((id) => {
    const found = mail.read(viewer, id);
    if (!found) return `${id}: not among the mails that may be seen`;
    return `${id}\n  ${found.date?.slice(0, 16)}  ${found.from}  ${found.subject}\n\n${found.body.trim()}`;
  });
  return [lineOf(scenario), `  Answer: ${scenario.answer}`, ...evidence].join("\n\n");
}

export const scenariosCommand = defineCommand({
  name: "scenarios",
  async run(config, io) {
    const { split, n, seed, scenario, show } = config;
    using mail = openMailDatabase(mailDatabasePath(config));
    const all = mail.scenarios();
    const isAny = scenario !== undefined || all.some((one) => split === undefined || one.split === split);
    const chosen = isAny ? (chooseScenarios(all, { split, n, seed, scenario }) as EmailScenario[]) : [];
    const text = chosen.map((one) => (show ? wholeText(one, mail) : lineOf(one))).join(show ? "\n\n\n" : "\n");
    io.log(printable(text));
    if (chosen.length < all.length) io.log(`\n${chosen.length} of ${all.length} scenarios`);
    return { scenarios: chosen.map(({ facts: _, inbox: __, ...scenario }) => scenario) };
  },
});
