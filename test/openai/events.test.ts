import { expect, it } from "vitest";
import { eventsOf } from "../../src/serve/openai/events.js";

/** The data of all events of a body that comes in pieces of so many bytes. */
async function read(text: string, bytes: number): Promise<string[]> {
  const body = Buffer.from(text);
  const pieces = Array.from({ length: Math.ceil(body.length / bytes) }, (_, i) =>
    body.subarray(i * bytes, (i + 1) * bytes),
  );
  const events: string[] = [];
  for await (const data of eventsOf(new Response(ReadableStream.from(pieces)))) events.push(data);
  return events;
}

it.each([1, 2, 3, 7, 1000])("events are read alike in pieces of %i bytes, whatever ends their lines", async (bytes) => {
  const events = ': a comment\nevent: message\nid: 7\ndata: {"é": 1}\n\n\ndata:two\ndata: lines\n\ndata: [DONE]';
  for (const end of ["\n", "\r\n", "\r"]) {
    expect(await read(events.replaceAll("\n", end), bytes)).toEqual(['{"é": 1}', "two\nlines", "[DONE]"]);
  }
});
