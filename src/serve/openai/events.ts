/** Server-sent events, and the joining of a streamed completion's chunks. */

import { type Fields, isFields, listOf } from "./fields.js";

/** A line ends with CR LF, LF or CR. */
const LINE = /\r\n|\n|\r/;

/** The data of each event of an answer, as it comes. Other fields and comments are passed over. */
export async function* eventsOf({ body }: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const data: string[] = [];
  let rest = "";
  function* read(lines: readonly string[]) {
    for (const line of lines) {
      if (line === "") yield* data.length > 0 ? [data.splice(0).join("\n")] : [];
      else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  }
  for await (const bytes of body ?? []) {
    rest += decoder.decode(bytes as Uint8Array, { stream: true });
    // A CR at the end may be half of a CR LF.
    const whole = Math.max(rest.lastIndexOf("\n"), rest.lastIndexOf("\r", rest.length - 2)) + 1;
    yield* read(rest.slice(0, whole).split(LINE).slice(0, -1));
    rest = rest.slice(whole);
  }
  yield* read([...rest.split(LINE), ""]);
}

/**
 * Joins the chunks of a text that is a stream: server-sent events, or JSON a line.
 * @returns undefined for another text
 */
export function joined(text: string) {
  const lines = text.split(LINE).flatMap((line) => {
    const data = line.replace(/^data:/, "").trim();
    return data === "" || /^(:|event:|id:|retry:)/.test(data) ? [] : [data];
  });
  const ended = lines.includes("[DONE]");
  const chunks: Fields[] = [];
  for (const line of lines) {
    if (line === "[DONE]") continue;
    try {
      const chunk: unknown = JSON.parse(line);
      if (!isFields(chunk)) return undefined;
      chunks.push(chunk);
    } catch {
      // A last line that was cut off ends the stream; another text is none.
      if (chunks.length === 0) return undefined;
    }
  }
  return chunks.length > 0 || ended ? join(chunks, ended) : undefined;
}

/** Names of fields that hold a part of a text, of which the whole is joined. */
const TEXTS = ["content", "reasoning_content", "reasoning", "refusal", "text"];

/** What a stream has said as a whole, in the form of an answer that is none; whether it said its end. */
function join(chunks: readonly Fields[], done: boolean) {
  const message: Fields = {};
  const calls: Fields[] = [];
  const said: { finish: unknown; usage: unknown; error: unknown } = {
    finish: undefined,
    usage: undefined,
    error: undefined,
  };
  for (const chunk of chunks) {
    said.usage = chunk.usage ?? said.usage;
    said.error ??= chunk.error ?? (typeof chunk.message === "string" ? chunk : undefined);
    for (const choice of listOf(chunk.choices).filter(isFields)) {
      const delta = [choice.delta, choice.message, choice].find(isFields) as Fields;
      for (const name of TEXTS) message[name] = added(message[name], delta[name]);
      for (const call of listOf(delta.tool_calls).filter(isFields)) addCall(calls, call);
      said.finish = choice.finish_reason ?? said.finish;
      said.error ??= choice.error;
    }
  }
  if (calls.length > 0) message.tool_calls = calls;
  const ended = done || said.finish !== undefined;
  return { choices: [{ message, finish_reason: said.finish }], usage: said.usage, error: said.error, ended };
}

function added(before: unknown, piece: unknown): unknown {
  if (piece === undefined || piece === null) return before;
  if (before === undefined) return piece;
  return typeof before === "string" && typeof piece === "string" ? before + piece : [before, piece].flat();
}

/** A call comes in pieces of one index; some servers give all calls the same one, or none. */
function addCall(calls: Fields[], piece: Fields): void {
  const { id, index } = piece;
  const given = isFields(piece.function) ? piece.function : {};
  const last = calls.findLast((call) => index === undefined || call.index === index);
  const another =
    typeof id === "string" && id !== "" && last?.id !== undefined && last.id !== id && Boolean(given.name);
  if (!last || another) {
    calls.push({ ...piece, function: { ...given } });
    return;
  }
  const whole = last.function as Fields;
  const name = whole.name || given.name;
  Object.assign(last, {
    ...piece,
    id: last.id || id,
    function: { ...whole, name, arguments: added(whole.arguments, given.arguments) },
  });
}
