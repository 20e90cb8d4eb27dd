/**
 * Starts work on each group as soon as it is complete, while others are still being played, so that the time of a judge is
 * hidden. If the work fails for good, playing stops.
 */
import type { Trajectory } from "../rollout/trajectory.js";
import { onAbort } from "../util/signals.js";

export class GroupWork<T> {
  readonly #work: (group: readonly Trajectory[]) => Promise<T>;
  readonly #onDone: (group: readonly Trajectory[], result: T) => void;
  /** By scenario id. */
  readonly #begun = new Map<string, Promise<T>>();
  readonly #stop = new AbortController();
  #failure: { readonly error: unknown } | undefined;

  constructor(
    work: (group: readonly Trajectory[]) => Promise<T>,
    onDone: (group: readonly Trajectory[], result: T) => void = () => undefined,
  ) {
    this.#work = work;
    this.#onDone = onDone;
  }

  begin(group: readonly Trajectory[]): void {
    const id = group[0]?.scenario.id;
    if (id === undefined || this.#begun.has(id)) return;
    const working = this.#work(group).then((result) => {
      this.#onDone(group, result);
      return result;
    });
    this.#begun.set(id, working);
    // Reported by `all` or `during`; here it only stops the playing, and must not count as unhandled.
    working.catch((error: unknown) => {
      this.#failure ??= { error };
      this.#stop.abort();
    });
  }

  /**
   * Plays under a signal that is aborted when the work fails, or when `signal` is.
   * @throws the error of the work, once everything that was started has ended
   */
  async during<R>(signal: AbortSignal, play: (signal: AbortSignal) => Promise<R>): Promise<R> {
    using _stopping = onAbort(signal, () => this.#stop.abort());
    try {
      return await play(this.#stop.signal);
    } catch (error) {
      await Promise.allSettled(this.#begun.values());
      throw this.#failure && !signal.aborted ? this.#failure.error : error;
    }
  }

  /**
   * The results of all groups, in order; starts work that has not begun. `empty` stands for groups without members.
   * @throws the first failure, once everything has ended
   */
  async all(groups: readonly (readonly Trajectory[])[], empty: T): Promise<T[]> {
    for (const group of groups) this.begin(group);
    await Promise.allSettled(this.#begun.values());
    if (this.#failure) throw this.#failure.error;
    return Promise.all(groups.map(async (group) => (await this.#begun.get(group[0]?.scenario.id ?? "")) ?? empty));
  }
}
