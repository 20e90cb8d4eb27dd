/**
 * Errors that a user can act on. Their message is one clear line: what is wrong and how to mend it.
 * The command line prints that line and nothing else; any other error is a defect and keeps its stack.
 */
export class HoneError extends Error {
  /** Process exit code: 1 for work that failed. */
  readonly exitCode: number = 1;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** Wrong flags, unknown keys, values out of range: the command was not started. Exit code 2. */
export class UsageError extends HoneError {
  override readonly exitCode = 2;
}

/** The message of anything that can be thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The code of a system error (ENOENT, EACCES, SQLITE_BUSY ...), when it has one. */
export function codeOf(error: unknown): string | undefined {
  if (error instanceof Error && "code" in error && typeof error.code === "string") return error.code;
  return undefined;
}
