/** Errors of the learner, for callers that treat them differently. */
import { HoneError } from "../util/errors.js";

/**
 * The learner's process is gone: it crashed, was killed, or was ended here because it stopped responding. Only the step is
 * lost: start a learner from the last checkpoint and repeat it.
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

/** The learner refuses the request and would refuse it again: an unknown architecture, an adapter that does not fit. */
export class LearnerRefused extends HoneError {}

/** Memory ran out during an update. The learner is alive; the same update with smaller micro-batches may fit. */
export class LearnerOutOfMemory extends HoneError {}

/** A defect: the learner raised an unexpected exception. Its log has the traceback. */
export class LearnerFailed extends HoneError {}
