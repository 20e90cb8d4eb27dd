/** The synthetic world in a real database, and the email task's expert playing in it with the real tools. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { playRollout, type RolloutOutcome } from "../../src/core/rollout/rollout.js";
import type { AnyTask, ExpertOptions } from "../../src/core/task/task.js";
import { Random } from "../../src/core/util/random.js";
import { emailTask } from "../../src/email/email-task.js";
import { type MailDatabase, openMailDatabase } from "../../src/email/reader.js";
import type { EmailScenario } from "../../src/email/scenario.js";
import { syntheticWorld, type WorldOptions } from "../../src/email/synthetic/world.js";
import { openMailDatabaseWriter } from "../../src/email/writer.js";
import { ExpertSession } from "../../src/hone/expert-session.js";

export interface SyntheticInbox {
  readonly mail: MailDatabase;
  readonly scenarios: readonly EmailScenario[];
  play(scenario: EmailScenario, options?: ExpertOptions): Promise<RolloutOutcome>;
  close(): void;
}

const limits = {
  maxTurns: 10,
  maxTokens: 0,
  turnSeconds: 60,
  toolSeconds: 60,
  rolloutSeconds: 120,
  onToolError: "observe",
} as const;

export function buildSyntheticInbox(options: WorldOptions): SyntheticInbox {
  const file = join(mkdtempSync(join(tmpdir(), "hone-inbox-")), "mail.db");
  const writer = openMailDatabaseWriter(file);
  for (const { mails, scenarios } of syntheticWorld(options)) {
    for (const mail of mails) {
      const added = writer.add(mail);
      if (added !== "imported") throw new Error(`${mail.messageId} of the synthetic world: ${added}`);
    }
    writer.addScenarios(scenarios);
  }
  writer.finish();
  const mail = openMailDatabase(file);
  return {
    mail,
    scenarios: mail.scenarios(),
    play: (scenario, expert = {}) => {
      const task = emailTask as unknown as AnyTask;
      const session = new ExpertSession(task, scenario, new Random("expert", scenario.id), expert);
      const signal = new AbortController().signal;
      return playRollout({ task, scenario, env: { mail, rank: "date" }, session, limits, signal });
    },
    close: () => mail.close(),
  };
}

/** Number of characters that a model reads and writes: messages, calls and results, without the template's own. */
export function conversationLength({ messages }: Pick<RolloutOutcome, "messages">): number {
  return messages.reduce((sum, message) => {
    const calls = message.role === "assistant" ? (message.tool_calls ?? []) : [];
    return sum + message.content.length + calls.reduce((length, call) => length + JSON.stringify(call).length, 0);
  }, 0);
}
