/** A worker thread that parses. Piscina calls the default export with each job. */
import { workerData } from "piscina";
import type { ImportRules, Job, Parsed } from "./job.js";
import { parseJob } from "./parse.js";

export default (job: Job): Promise<Parsed> => parseJob(job, workerData as ImportRules);
