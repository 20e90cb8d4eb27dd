/** Errors that a user can act on, and the words for all others. */
import { types } from "node:util";
import { cacheHome } from "./paths.js";

/**
 * Errors that a user can act on. Their message says what is wrong and how to mend it: one clear line, or a line for each where
 * one would have more than 40 words.
 * The command line prints that and nothing else; any other error is a defect and keeps its stack.
 */
export class HoneError extends Error {
  /** Process exit code: 1 for work that failed. */
  readonly exitCode: number = 1;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Work that stopped before its end, with the result of what was done: `--json` prints it beside the message. */
export class UnfinishedError extends HoneError {
  constructor(
    message: string,
    readonly result: object,
  ) {
    super(message);
  }
}

/** Wrong flags, unknown keys, values out of range: the command was not started. Exit code 2. */
export class UsageError extends HoneError {
  override readonly exitCode = 2;
}

/** A value that is no error, as code of the user's may throw it. */
function shown(value: unknown): string {
  if (value === "") return "an empty text";
  try {
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
  } catch {
    // A circle, or an object without a text.
    return `a value of type ${typeof value}`;
  }
}

/** Characters of a thrown value in a message. */
const SHOWN = 200;

/** The message of anything that can be thrown, never empty. */
export function messageOf(error: unknown): string {
  if (typeof error === "string" && error !== "") return error;
  if (!(error instanceof Error) && !types.isNativeError(error)) return `${shown(error)} was thrown, which is no Error`;
  if (typeof error.message === "string" && error.message !== "") return error.message;
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.map(messageOf).join("; ");
  return `${error.name} without a message`;
}

/** The code of a system error (ENOENT, EACCES, SQLITE_BUSY ...), when it has one. */
export function codeOf(error: unknown): string | undefined {
  if (error instanceof Error && "code" in error && typeof error.code === "string") return error.code;
  return undefined;
}

/** System error codes with their meaning for the user. */
const refusals: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full; free some space",
  EDQUOT: "the disk quota is used up; free some space",
  EACCES: "there is no permission for that",
  EPERM: "there is no permission for that",
  EROFS: "the disk is read-only",
  NO_TMPDIR: "the folder for temporary files is missing; make it, or set TMPDIR to another",
  ENOTDIR: "a file is where a folder should be",
  EMFILE: "too many files are open; raise `ulimit -n`",
  SQLITE_CORRUPT: "a database is damaged; bring it back from a copy",
  SQLITE_FULL: "the disk is full; free some space",
  SQLITE_READONLY: "the file is read-only",
  SQLITE_CANTOPEN: "the file cannot be opened; is its folder there, and may it be written to?",
};

/**
 * Calls of which ENOENT says that a folder is missing, with the code of the reason: creating a folder below one that cannot be
 * written to is reported as if that one were missing.
 */
const missing: Readonly<Record<string, string>> = { mkdir: "EROFS", mkdtemp: "NO_TMPDIR" };

/** One line for an error of the machine (a full disk, a missing permission); undefined for an error of the program. */
export function refusalOf(error: unknown): string | undefined {
  const code = codeOf(error);
  const what = code === "ENOENT" ? missing[(error as NodeJS.ErrnoException).syscall ?? ""] : code;
  const meaning = refusals[what ?? ""];
  const elsewhere = messageOf(error).includes(cacheHome()) ? "; XDG_CACHE_HOME names another folder" : "";
  return meaning && `${meaning} (${messageOf(error)})${elsewhere}`;
}
