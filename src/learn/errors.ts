/** What can go wrong with the learner, for callers that act on the difference. */
import { HoneError } from "../util/index.js";

/**
 * The learner's process is gone: it crashed, was killed, or was ended here because it gave no sign of life. Nothing of
 * the step is lost but the step: start a learner from the last checkpoint and do it again.
 */
export class LearnerDied extends HoneError {
  /** The last lines of its output. */
  readonly lastLines: readonly string[];

  constructor(what: string, lastLines: readonly string[], logFile: string) {
    const last = lastLines.at(-1);
    super(`the learner ${what}${last ? `; its last line: ${last.trim().slice(0, 300)}` : ""} (log: ${logFile})`);
    this.lastLines = lastLines;
  }
}

/** The learner will not do this, and would not the next time: an unknown architecture, an adapter that does not fit. */
export class LearnerRefused extends HoneError {}

/** Memory ran out during an update. The learner lives; the same update with smaller micro-batches may fit. */
export class LearnerOutOfMemory extends HoneError {}

/** A defect: the learner threw something that nobody expected. Its log has the traceback. */
export class LearnerFailed extends HoneError {}
