/** Which requests of a thread's code open a connection. */
import { subscribe } from "node:diagnostics_channel";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { type Host, openHost } from "../../src/agent/host.js";

const connected: string[] = [];
subscribe("undici:request:create", (message) => {
  connected.push((message as { request: { origin: string } }).request.origin);
});

test("fetch reaches the thread's own endpoints without one until they close, and everything else as ever", async () => {
  const other = createServer((_, response) => response.end("other"));
  await new Promise<void>((listening) => other.listen(0, "127.0.0.1", listening));
  const elsewhere = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  const hosts = [await openHost(), await openHost()];
  const headers = { authorization: "Bearer hone-0-x" };
  for (const { url } of hosts) {
    const answer = await fetch(`${url}/models`, { headers });
    expect([answer.status, answer.url]).toEqual([401, `${url}/models`]);
  }
  expect(connected).toEqual([]);

  expect(await (await fetch(elsewhere)).text()).toBe("other");
  const origin = (hosts[0] as Host).url.replace("/v1", "");
  expect((await fetch(new Request(`${origin}/v1/models`, { headers }))).status).toBe(401);
  expect(connected).toEqual([elsewhere, origin]);

  for (const host of hosts) await host.close();
  await expect(fetch(`${origin}/v1/models`, { headers })).rejects.toThrow("fetch failed");
  other.close();
});
