/** `node dist/bench/mail/main.js [COPIES]`: all figures of the mail database, as one JSON object. */
import { existsSync } from "node:fs";
import { HoneError } from "../../src/util/errors.js";
import { measureBuild } from "./build.js";
import { benchDatabase, hasSample, repeatedMailbox, sampleQuestions } from "./corpus.js";
import { measureLatency } from "./latency.js";
import { measureSearchQuality } from "./search-quality.js";

if (!hasSample) throw new HoneError("there is no sample of real mail at ../shared/data/enron-sample");
const copies = Number(process.argv[2] ?? 15);
const small = benchDatabase("sample.db");
const large = benchDatabase(`sample-x${copies}.db`);

if (!existsSync(small)) await measureBuild(await repeatedMailbox(1), sampleQuestions, small);
console.log(
  JSON.stringify(
    {
      quality: measureSearchQuality(small),
      build: await measureBuild(await repeatedMailbox(copies), sampleQuestions, large),
      latency: measureLatency(large),
    },
    null,
    2,
  ),
);
