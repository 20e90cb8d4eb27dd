/**
 * `node dist/bench/judge-server.js`: starts a scripted judge that knows the answers of a mail database, until Ctrl-C.
 * For trying judged training without a real judge.
 */
import { parseArgs } from "node:util";
import { messageOf } from "../src/core/util/errors.js";
import { openMailDatabase } from "../src/email/reader.js";
import { knowingScore, startScriptedJudge } from "./scripted-judge.js";

const usage = `node dist/bench/judge-server.js [options]      a judge that knows the answers, on 127.0.0.1

  --db FILE      mail database (default .hone/mail.db)
  --port N       default 8808
  --seconds N    how long every answer takes (default 0)`;

try {
  const { values } = parseArgs({
    options: {
      db: { type: "string", default: ".hone/mail.db" },
      port: { type: "string", default: "8808" },
      seconds: { type: "string", default: "0" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) console.log(usage);
  else {
    const { url } = await startScriptedJudge({
      score: knowingScore(openMailDatabase(values.db)),
      port: Number(values.port),
      seconds: Number(values.seconds),
    });
    console.log(`the scripted judge listens: --judge-url ${url} --judge-model scripted`);
  }
} catch (error) {
  console.error(`judge-server: ${messageOf(error)}\n${usage}`);
  process.exitCode = 2;
}
