/** All of a run that must not depend on when it was interrupted. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";

function filesBelow(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    statSync(join(folder, name)).isFile(),
  );
  return Object.fromEntries(
    files.sort().map((name) => [
      name,
      createHash("sha256")
        .update(readFileSync(join(folder, name)))
        .digest("hex"),
    ]),
  );
}

export function stateOf(folder: string) {
  const database = new Database(join(folder, "run.sqlite"), { readonly: true });
  try {
    const all = (sql: string) => database.prepare(sql).all();
    return {
      steps: all("SELECT step, checkpoint, adapter, metrics FROM steps ORDER BY step"),
      rollouts: all(
        `SELECT phase, step, scenario, member, adapter, reward, success, ending, turns, completion_tokens, training_reward,
         advantage, hex(trajectory) trajectory, hex(tokens) tokens FROM rollouts ORDER BY phase, step, scenario, member`,
      ),
      validations: all("SELECT step, checkpoint, result FROM validations ORDER BY step"),
      checkpoints: filesBelow(join(folder, "checkpoints")),
      metrics: readFileSync(join(folder, "metrics.jsonl"), "utf8")
        .trimEnd()
        .split("\n")
        .map((line) => {
          const { seconds: _, checks: __, reused: ___, ...rest } = JSON.parse(line);
          return rest;
        }),
    };
  } finally {
    database.close();
  }
}
