import { existsSync, readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Connection } from "../../src/agent/mcp/connection.js";
import { ServerFailure } from "../../src/agent/mcp/errors.js";
import type { ServerSpec } from "../../src/core/task/servers.js";
import { ToolError } from "../../src/core/task/task.js";
import { markOf, nodeServer, odd, processesWith, temporary, until } from "./support/servers.js";

const logs = temporary();
const never = new AbortController().signal;
/** How long a program sleeps: no other run of these tests on this machine has one that sleeps as long. */
const seconds = (fraction: string) => `1000${process.pid}.${fraction}`;
const opened: Connection[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((one) => one.close()));
});

async function open(server: ServerSpec, startSeconds = 60): Promise<Connection> {
  const connection = await Connection.open({ server, logs, label: "test", startSeconds });
  opened.push(connection);
  return connection;
}
/** A server at an address. @param call answers a call of a tool itself, where it returns true */
async function far(call: (response: ServerResponse, body: string) => boolean) {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const { id, method, params = {} } = JSON.parse(body || "{}");
    if (id === undefined) return void response.writeHead(request.method === "POST" ? 202 : 405).end();
    if (method === "tools/call" && call(response, body)) return;
    const { protocolVersion } = params;
    const result =
      method === "initialize"
        ? { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "far", version: "1" } }
        : { content: [] };
    response
      .writeHead(200, { "content-type": "application/json", "mcp-session-id": "1" })
      .end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  }).listen(0, "127.0.0.1");
  await until(() => server.listening);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const end = () => {
    server.closeAllConnections();
    server.close();
  };
  return { spec: { name: "far", kind: "http", url, headers: {} } as const, [Symbol.dispose]: end };
}
const failureOf = async (work: Promise<unknown>): Promise<ServerFailure> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ServerFailure);
  return error as ServerFailure;
};

describe("a server that does not start", () => {
  it("is named with what is wrong: no such program", async () => {
    const failure = await failureOf(open({ ...odd(), command: "no-such-program" }));
    expect(failure).toMatchObject({ problem: "server_not_started", server: "odd" });
    expect(failure.message).toBe("the MCP server odd was not started: there is no program no-such-program");
    const homeless = await failureOf(open({ ...odd(), cwd: "/no/such/folder" }));
    expect(homeless.message).toMatch(/was not started: there is no folder \/no\/such\/folder/);
  });

  it("is named with its last words, which are kept in its log", async () => {
    const failure = await failureOf(open(odd("crash")));
    expect(failure.problem).toBe("server_not_started");
    expect(failure.message).toMatch(/ended with code 3; it wrote: no licence file \(log: .*odd\.log\)/);
    expect(readFileSync(`${logs}/odd.log`, "utf8")).toContain("[test] no licence file\n");
  });

  it("is given up when it says nothing, or nothing that is a message", async () => {
    const silent = await failureOf(open(odd("silent", markOf("silent")), 0.5));
    expect(silent.problem).toBe("server_silent");
    expect(silent.message).toMatch(/neither answered nor wrote anything for 0.5 seconds of its start/);
    // How long a program takes to start depends on the machine.
    let babble = silent;
    for (let seconds = 0.5; seconds < 60 && !/stdout/.test(babble.message); seconds *= 2) {
      babble = await failureOf(open(odd("babble"), seconds));
    }
    expect(babble.message).toMatch(
      /neither answered nor wrote anything for .* seconds of its start.*\(stdout\) I do not speak JSON/,
    );
    // Also of one that heeds no end of its input.
    await until(() => processesWith(markOf("silent")).length === 0);
  });

  it("is given up when it writes on and on, and does not answer", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance"] });
    let failure: ServerFailure | undefined;
    try {
      void failureOf(open(odd("chatter"), 60)).then((found) => {
        failure = found;
      });
      // Time passes whenever it has written something: it is never silent.
      for (let heard = ""; !failure; await new Promise((resolve) => setImmediate(resolve))) {
        const said = existsSync(`${logs}/odd.log`) ? readFileSync(`${logs}/odd.log`, "utf8") : "";
        if (said === heard) continue;
        heard = said;
        vi.advanceTimersByTime(10_000);
      }
    } finally {
      vi.useRealTimers();
    }
    expect(failure.problem).toBe("server_silent");
    expect(failure.message).toMatch(
      /^the MCP server odd wrote, but did not answer, for 600 seconds of its start; it wrote: .*almost there/s,
    );
  });

  it("is named with its address, where it has one", async () => {
    const failure = await failureOf(
      open({ name: "far", kind: "http", url: "http://127.0.0.1:9/mcp?key=secret", headers: {} }),
    );
    expect(failure.problem).toBe("server_not_started");
    expect(failure.message).toMatch(/the MCP server far does not answer at http:\/\/127.0.0.1:9\/mcp: /);
    expect(failure.message).not.toContain("secret");
    const deaf = createServer(() => undefined).listen(0, "127.0.0.1");
    await until(() => deaf.listening);
    const url = `http://127.0.0.1:${(deaf.address() as AddressInfo).port}/mcp`;
    const silent = await failureOf(open({ name: "far", kind: "http", url, headers: {} }, 0.3));
    expect(silent.problem).toBe("server_silent");
    deaf.closeAllConnections();
    deaf.close();
  });

  it("is named with the status of its refusal, whatever else that has", async () => {
    const bodies = ["", "x".repeat(10_000)];
    const refusing = createServer((_, response) => response.writeHead(401).end(bodies.shift())).listen(0, "127.0.0.1");
    await until(() => refusing.listening);
    const url = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}/mcp`;
    for (const most of [300, 1500]) {
      const failure = await failureOf(open({ name: "far", kind: "http", url, headers: {} }));
      expect(failure.message).toMatch(/the MCP server far does not answer at http:\S+mcp: HTTP 401: /);
      expect(failure.message.length).toBeLessThan(most);
    }
    refusing.closeAllConnections();
    refusing.close();
  });
});

describe("a server that answers", () => {
  it("lists its tools and answers calls; lines that are no messages are counted and kept", async () => {
    const connection = await open(odd("greeting"));
    expect(connection.version).toBe("odd 1.2");
    expect((await connection.tools()).map(({ name }) => name)).toContain("echo");
    const answer = await connection.call("echo", { text: "é\n" }, never);
    expect(answer.content?.[0]?.text).toMatch(/^echo é\n from \d+$/);
    expect(connection.takeStrayLines()).toBe(3);
    expect(connection.takeStrayLines()).toBe(0);
    expect(readFileSync(`${logs}/odd.log`, "utf8")).toContain("(stdout) Welcome to the odd server!");
  });

  it("gets its own variables and those of every program, not hone's keys", async () => {
    vi.stubEnv("HF_TOKEN", "secret");
    const connection = await open({ ...odd(), env: { MINE: "1" } });
    const value = async (name: string) => (await connection.call("env", { name }, never)).content?.[0]?.text;
    expect(await value("MINE")).toBe("1");
    expect(await value("PATH")).toBe(process.env.PATH);
    expect(await value("HF_TOKEN")).toBe("undefined");
    vi.unstubAllEnvs();
  });

  it("gets integers beyond 2^53 - 1 as the model wrote them, by its input and by HTTP", async () => {
    const order = 1234567890123456789n;
    const written = '"arguments":{"order":1234567890123456789}';
    const connection = await open(odd());
    expect((await connection.call("heard", { order }, never)).content?.[0]?.text).toContain(written);
    const bodies: string[] = [];
    using server = await far((_, body) => {
      bodies.push(body);
      return false;
    });
    await (await open(server.spec)).call("find", { order }, never);
    expect(bodies.some((body) => body.includes(written))).toBe(true);
  });

  it("says of a call what the model should read", async () => {
    const connection = await open(odd());
    await expect(connection.call("nothing", {}, never)).rejects.toThrow(ToolError);
    await expect(connection.call("nothing", {}, never)).rejects.toThrow(/Unknown tool: nothing/);
    await expect(connection.call("nonsense", {}, never)).rejects.toThrow(ToolError);
    expect(connection.failure).toBeUndefined();
  });

  it("goes on after a call that was given up, and is given up itself when it shows no sign of life", async () => {
    const connection = await open(odd());
    const late = new Error("late");
    const stop = new AbortController();
    setTimeout(() => stop.abort(late), 100);
    await expect(connection.call("hang", {}, stop.signal)).rejects.toBe(late);
    expect((await connection.call("count", {}, never)).content?.[0]?.text).toBe("call 1");
    const deaf = await open(odd("deaf"));
    await expect(deaf.call("hang", {}, AbortSignal.timeout(100))).rejects.toThrow();
    await until(() => deaf.failure !== undefined);
    expect(deaf.failure?.message).toMatch(/no sign of life for 5 seconds/);
  });

  it("fails all calls under way when it dies, with its last words", async () => {
    const connection = await open(odd());
    const hanging = failureOf(connection.call("hang", {}, never));
    const failure = await failureOf(connection.call("die", {}, never));
    expect(failure.problem).toBe("server_died");
    expect(failure.message).toMatch(/ended with code 7; it wrote: out of paper/);
    expect((await hanging).problem).toBe("server_died");
    expect((await failureOf(connection.call("count", {}, never))).problem).toBe("server_died");
  });

  it.each(["ends", "is cut", "ends with its server"])(
    "has failed when an answer by HTTP %s before it is there",
    async (how) => {
      using server = await far((response) => {
        response.writeHead(200, { "content-type": "text/event-stream" }).write(": soon\n\n");
        if (how === "ends") response.end();
        else setTimeout(() => (how === "is cut" ? response.destroy() : server[Symbol.dispose]()), 100);
        return true;
      });
      const connection = await open(server.spec);
      const failure = await failureOf(connection.call("find", {}, never));
      expect(failure.problem).toBe("server_died");
      expect(failure.message).toMatch(/the MCP server far failed at http:\S+mcp: it ended the stream of an answer/);
    },
  );

  it("is ended when it writes a message without an end", async () => {
    const connection = await open(nodeServer("odd", [...odd("good", markOf("flood")).args]));
    expect((await failureOf(connection.call("flood", {}, never))).problem).toBe("message_too_long");
    await until(() => processesWith(markOf("flood")).length === 0);
  });
});

describe("the end of a connection", () => {
  it("leaves nothing of a server that ignores it, nor of what the server has started", async () => {
    const deaf = await open(odd("deaf", markOf("deaf")));
    const family = await open(odd("family", seconds("7654")));
    // One of its children has left its process group.
    expect(processesWith(`sleep ${seconds("7654")}`)).toHaveLength(2);
    await Promise.all([deaf.close(), family.close()]);
    await until(() =>
      [markOf("deaf"), `family ${seconds("7654")}`, `sleep ${seconds("7654")}`].every(
        (mark) => processesWith(mark).length === 0,
      ),
    );
  });

  it("leaves nothing of what a server has started that ended by itself", async () => {
    const connection = await open(odd("family", seconds("7655")));
    expect(processesWith(`sleep ${seconds("7655")}`)).toHaveLength(2);
    await failureOf(connection.call("die", {}, never));
    await until(() => processesWith(`sleep ${seconds("7655")}`).length === 0);
  });
});
