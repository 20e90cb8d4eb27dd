/**
 * `node dist/bench/mail/main.js [COPIES] [FORM,...]`: measures the mail database, prints the figures as one JSON object
 * and saves them to bench/results with the hardware. Forms: mbox, tar.gz, jsonl, folder; default the first two.
 */
import { existsSync, writeFileSync } from "node:fs";
import { HoneError } from "../../src/core/util/errors.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { resultsFile } from "../results.js";
import { type BuildFigures, measureBuild } from "./build.js";
import { benchDatabase, hasSample, repeatedMail, sampleQuestions } from "./corpus.js";
import { measureLatency } from "./latency.js";
import { measureSearchQuality } from "./search-quality.js";

if (!hasSample) throw new HoneError("there is no sample of real mail at ../shared/data/enron-sample");
const copies = Number(process.argv[2] ?? 15);
const forms = (process.argv[3] ?? "mbox,tar.gz").split(",");
const small = benchDatabase("sample.db");
const large = benchDatabase(`sample-x${copies}.db`);

if (!existsSync(small)) await measureBuild(await repeatedMail("mbox", 1), sampleQuestions, small);
const build: Record<string, BuildFigures> = {};
for (const form of forms) build[form] = await measureBuild(await repeatedMail(form, copies), sampleQuestions, large);
const hardware = hardwareOf(undefined);
const date = new Date().toISOString().slice(0, 10);
const figures = {
  command: `node dist/bench/mail/main.js ${copies} ${forms.join(",")}`,
  date,
  hardware,
  versions: versionsOf(undefined),
  quality: measureSearchQuality(small),
  build,
  latency: measureLatency(large),
};
writeFileSync(resultsFile("mail", hardware), `${JSON.stringify(figures, null, 2)}\n`);
console.log(JSON.stringify(figures, null, 2));
