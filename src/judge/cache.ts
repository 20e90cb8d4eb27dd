/** A cache of verdicts by request. */
export interface VerdictCache {
  /** The verdict as stored; undefined when there is none for this key. */
  get(key: string): unknown;
  put(key: string, verdict: unknown): void;
}
