/** An answer that never ends. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";

/** Bytes after which the server gives up: a client that has read so many reads all. */
const ENOUGH = 200 << 20;

/** Writes a text, then spaces until the client leaves. */
export async function endless(response: ServerResponse, start: string): Promise<void> {
  const spaces = Buffer.alloc(1 << 20, " ");
  const left = once(response, "close");
  response.write(start);
  for (let sent = 0; sent < ENOUGH && !response.destroyed; sent += spaces.length) {
    if (!response.write(spaces)) await Promise.race([once(response, "drain"), left]);
  }
  response.end();
}
