/** Reads log files, whatever their form, and joins the calls of one conversation. */
import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { HoneError, messageOf, UsageError } from "../../core/util/errors.js";
import { parseJson, toJson } from "../../core/util/json.js";
import { isFields } from "../../serve/openai/fields.js";
import { count } from "../pieces.js";
import { Unused, type UnusedReason } from "./messages.js";
import {
  callOfChat,
  callOfObservation,
  callOfSpan,
  isChat,
  isObservation,
  type LoggedCall,
  observationsIn,
  spansIn,
} from "./records.js";

/** Bytes of a file that is one JSON value at most: it is read as a whole. */
const WHOLE = 256 << 20;

/** A value of a file, undefined where a line is no JSON, and its place from 1. */
interface Placed {
  readonly value: unknown;
  readonly at: number;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Without a byte-order mark. @throws for what is no JSON, which is UTF-8 */
const valueIn = (bytes: Buffer) => parseJson(utf8.decode(bytes));

/** What a file holds as one value; undefined where its lines are values. */
function wholeOf(file: string): unknown {
  if (!existsSync(file)) throw new UsageError(`scenarios import: there is no file ${file}`);
  if (statSync(file).size > WHOLE || !/\.json$/i.test(file)) return undefined;
  try {
    return valueIn(readFileSync(file));
  } catch {
    return undefined;
  }
}

/** The values of a file: one a line; or one for all, a list, or an object with a list of `data`. */
async function* valuesOf(file: string): AsyncGenerator<Placed> {
  const whole = wholeOf(file);
  if (whole !== undefined) {
    const list = Array.isArray(whole) ? whole : isFields(whole) && Array.isArray(whole.data) ? whole.data : [whole];
    for (const [i, value] of list.entries()) yield { value, at: i + 1 };
    return;
  }
  let at = 0;
  // Bytes as they are: a sign that is cut, or of another encoding, spoils its line alone.
  const input = createReadStream(file, "latin1");
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    at++;
    if (line.trim() === "") continue;
    let value: unknown;
    try {
      value = valueIn(Buffer.from(line, "latin1"));
    } catch {
      // Counted as a line that is no JSON.
    }
    yield { value, at };
  }
}

/** The calls of one value; a record that cannot be used is its reason. */
function callsOf(value: unknown, id: string): (LoggedCall | UnusedReason)[] {
  const attempt = (read: () => LoggedCall): LoggedCall | UnusedReason => {
    try {
      return read();
    } catch (error) {
      if (error instanceof Unused) return error.reason;
      throw error;
    }
  };
  if (value === undefined) return ["not_json"];
  if (!isFields(value)) return ["unknown_form"];
  const spans = spansIn(value);
  if (spans) return spans.map((span) => attempt(() => callOfSpan(span)));
  if (isObservation(value)) return observationsIn(value).map((one) => attempt(() => callOfObservation(one)));
  if (isChat(value)) return [attempt(() => callOfChat(value, id))];
  return ["unknown_form"];
}

/** Calls of a trace without those whose messages a later one begins with. */
function joined(calls: readonly LoggedCall[]): LoggedCall[] {
  const ordered = [...calls].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const written = ordered.map(({ messages }) => messages.map((message) => toJson(message)));
  return ordered.filter((_, i) => {
    const own = written[i] as string[];
    return !written.some(
      (other, j) => j > i && other.length > own.length && own.every((message, at) => message === other[at]),
    );
  });
}

/**
 * @throws UsageError when a file is missing
 * @throws HoneError when it cannot be read
 */
export async function readLogs(files: readonly string[]) {
  const traces = new Map<string, LoggedCall[]>();
  const unused: Partial<Record<UnusedReason, number>> = {};
  let records = 0;
  for (const file of files) {
    try {
      for await (const { value, at } of valuesOf(file)) {
        for (const call of callsOf(value, `${basename(file)}-${at}`)) {
          records++;
          if (typeof call === "string") count(unused, call);
          else {
            const key = call.trace === undefined ? `${file} ${at}` : `trace ${call.trace}`;
            const calls = traces.get(key) ?? [];
            traces.set(key, calls);
            calls.push(call);
          }
        }
      }
    } catch (error) {
      if (error instanceof HoneError) throw error;
      throw new HoneError(`${file} cannot be read: ${messageOf(error)}`, { cause: error });
    }
  }
  const conversations: LoggedCall[] = [];
  const seen = new Set<string>();
  let parts = 0;
  for (const calls of traces.values()) {
    const whole = joined(calls);
    parts += calls.length - whole.length;
    for (const call of whole) {
      const content = toJson([call.messages, call.tools]);
      if (!call.messages.some(({ role }) => role === "user")) count(unused, "no_question");
      else if (call.messages.at(-1)?.role !== "assistant") count(unused, "no_response");
      else if (seen.has(content)) count(unused, "repeated");
      else {
        seen.add(content);
        conversations.push(call);
      }
    }
  }
  // Whole conversations in the order of their files; `joined`: turns that a later call of the conversation has in its prompt.
  return { conversations, records, joined: parts, unused };
}
