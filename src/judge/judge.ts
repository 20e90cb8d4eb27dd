/**
 * A judge that answers questions of a known form: asks its server, reads the answer, sends it back once with what is
 * wrong with it, and remembers verdicts by what was asked.
 */
import { createHash } from "node:crypto";
import { cutText } from "../util/index.js";
import type { VerdictCache } from "./cache.js";
import type { JudgeClient } from "./client.js";
import type { JudgeAnswer, JudgeMessage, JudgeQuestion } from "./dialect.js";
import { Lost } from "./failures.js";

export interface Question<V> extends JudgeQuestion {
  /** Told apart from another asking of the same words. */
  readonly vote?: number;
  /** Reads an answer. Throws Lost with what the judge did wrong, worded for the judge. */
  read(text: string): V;
}

/** One answer with what was wrong with it. */
export interface Exchange {
  readonly answer: string;
  readonly problem: string | undefined;
}

export interface Verdict<V> {
  readonly value: V;
  readonly cached: boolean;
  /** What the judge wrote, the last one right; empty when it was remembered. */
  readonly exchanges: readonly Exchange[];
}

/** A question that has no verdict, with what the judge wrote. */
export class LostVerdict extends Lost {
  constructor(
    cause: Lost,
    readonly exchanges: readonly Exchange[],
  ) {
    super(cause.reason, cause.message);
  }
}

/** Characters of a wrong answer that are sent back. */
const QUOTED = 4000;

export class Judge {
  readonly client: JudgeClient;
  readonly #cache: VerdictCache | undefined;
  /** The same question asked twice at once is sent once. */
  readonly #open = new Map<string, Promise<Verdict<unknown>>>();
  #cached = 0;

  /** @param cache undefined asks everything anew */
  constructor(client: JudgeClient, cache: VerdictCache | undefined) {
    this.client = client;
    this.#cache = cache;
  }

  /** Verdicts that were remembered. */
  get cached(): number {
    return this.#cached;
  }

  /**
   * @throws LostVerdict when there is no verdict to be had
   * @throws JudgeStopped when there will be none any more
   */
  async ask<V>(question: Question<V>, signal: AbortSignal): Promise<Verdict<V>> {
    const { messages, form, vote = 0 } = question;
    const content = JSON.stringify([...this.client.identity(), form.name, messages, vote]);
    const key = createHash("sha256").update(content).digest("hex");
    const known = this.#cache?.get(key);
    if (known !== undefined) {
      this.#cached++;
      return { value: known as V, cached: true, exchanges: [] };
    }
    const open = this.#open.get(key) as Promise<Verdict<V>> | undefined;
    if (open) {
      const { value } = await open;
      this.#cached++;
      return { value, cached: true, exchanges: [] };
    }
    const asking = this.#askAndRepair(question, signal).then((verdict) => {
      this.#cache?.put(key, verdict.value);
      return verdict;
    });
    this.#open.set(key, asking);
    try {
      return await asking;
    } finally {
      this.#open.delete(key);
    }
  }

  async #askAndRepair<V>(question: Question<V>, signal: AbortSignal): Promise<Verdict<V>> {
    const exchanges: Exchange[] = [];
    const said = async (messages: readonly JudgeMessage[]): Promise<Verdict<V> | Lost> => {
      const answer = await this.client.ask({ messages, form: question.form }, signal);
      const read = readAnswer(question, answer);
      if (read instanceof Lost) {
        exchanges.push({ answer: answer.text, problem: read.message });
        return read;
      }
      exchanges.push({ answer: answer.text, problem: undefined });
      return { value: read.value, cached: false, exchanges };
    };
    try {
      const first = await said(question.messages);
      if (!(first instanceof Lost)) return first;
      const repaired = await said([...question.messages, ...repair(exchanges[0]?.answer ?? "", first)]);
      if (!(repaired instanceof Lost)) return repaired;
      throw repaired;
    } catch (error) {
      throw error instanceof Lost ? new LostVerdict(error, exchanges) : error;
    }
  }
}

function readAnswer<V>(question: Question<V>, answer: JudgeAnswer): { value: V } | Lost {
  try {
    return { value: question.read(answer.text) };
  } catch (error) {
    if (!(error instanceof Lost)) throw error;
    return answer.cut ? new Lost("cut", "it was cut off at the limit of tokens; keep the explanations short") : error;
  }
}

function repair(answer: string, { message }: Lost): JudgeMessage[] {
  return [
    // An empty turn is refused by some servers.
    { role: "assistant", content: cutText(answer, QUOTED) || "(nothing)" },
    { role: "user", content: `That answer cannot be used: ${message}. Give the whole answer again, as JSON alone.` },
  ];
}
