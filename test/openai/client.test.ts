import { createServer as createTlsServer } from "node:https";
import { createServer } from "node:net";
import { Agent, type Dispatcher } from "undici";
import { afterEach, describe, expect, it, vi } from "vitest";
import { openPlayerFor } from "../../src/machine/play/choose-player.js";
import { complete } from "../../src/serve/openai/completion.js";
import { adviceFor, ChatError } from "../../src/serve/openai/failure.js";
import { checkChatUrl, isOpenAi, keyFor, refusalHint } from "../../src/serve/openai/server.js";
import { type ChatServer, completion, type Reply, type Request, startServer } from "../judge/support/server.js";

const servers: ChatServer[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  for (const server of servers.splice(0)) await server.close();
});

async function serve(answer: (request: Request, index: number) => Reply): Promise<ChatServer> {
  const server = await startServer(answer);
  servers.push(server);
  return server;
}

const question = { model: "m", messages: [{ role: "user" as const, content: "a private mail" }] };
const ask = (url: string, key?: string): Promise<unknown> =>
  complete({ url, key }, question, new AbortController().signal);

/** All that OpenAI's own clients read from the environment. */
function openAiEnvironment(): void {
  vi.stubEnv("OPENAI_API_KEY", "sk-openai");
  vi.stubEnv("OPENAI_ADMIN_KEY", "sk-admin");
  vi.stubEnv("OPENAI_ORG_ID", "org-mine");
  vi.stubEnv("OPENAI_PROJECT_ID", "proj-mine");
  vi.stubEnv("OPENAI_WEBHOOK_SECRET", "whsec-mine");
  vi.stubEnv("OPENAI_BASE_URL", "https://gateway.example/v1");
  vi.stubEnv("OPENAI_CUSTOM_HEADERS", "x-gateway-key: sk-gateway\nauthorization: Bearer sk-custom");
}
const secrets = /sk-openai|sk-admin|org-mine|proj-mine|whsec-mine|sk-gateway|sk-custom/;

describe("OPENAI_API_KEY", () => {
  const env = { OPENAI_API_KEY: " sk-openai\n" };

  it.each([
    "https://api.openai.com/v1",
    "https://api.openai.com",
    "HTTPS://API.OpenAI.com/v1",
    "https://api.openai.com:443/v1",
    "https://eu.api.openai.com/v1",
    "https://us.api.openai.com/v1",
  ])("goes to OpenAI: %s", (url) => {
    expect(keyFor(url, undefined, env)).toBe("sk-openai");
  });

  it.each([
    "http://api.openai.com/v1",
    "https://api.openai.com.evil.example/v1",
    "https://api.openai.com@evil.example/v1",
    "http://api.openai.com@evil",
    "https://evil.example@api.openai.com/v1",
    "https://user:password@api.openai.com/v1",
    "https://api.openai.com%2eevil.example/v1",
    "https://evil.example/https://api.openai.com/v1",
    "https://evil.example/?api.openai.com",
    "https://evil.example#api.openai.com",
    "https://evil.example\\@api.openai.com/v1",
    "https://evilapi.openai.com/v1",
    "https://evil-api.openai.com/v1",
    "https://a.b.api.openai.com/v1",
    "https://.api.openai.com/v1",
    "https://openai.com/v1",
    "https://api-openai-com.example/v1",
    "https://api.openai.co/v1",
    "ftp://api.openai.com/v1",
    "http://127.0.0.1:8080/v1",
    "http://localhost:8080/v1",
    "api.openai.com",
    "",
  ])("goes nowhere else: %s", (url) => {
    expect(isOpenAi(url)).toBe(false);
    expect(keyFor(url, undefined, env)).toBeUndefined();
    expect(keyFor(url, "sk-given", env)).toBe("sk-given");
  });

  it("gives way to a key that was given, and is none when it is empty", () => {
    expect(keyFor("https://api.openai.com/v1", "sk-given", env)).toBe("sk-given");
    expect(keyFor("https://api.openai.com/v1", undefined, { OPENAI_API_KEY: " " })).toBeUndefined();
  });

  it("is refused where no header can have it, and is not told", () => {
    for (const key of ["sk a", "sk-\nb", "“sk-c”", "'sk-d'"]) {
      const line = /^the key for judge\.example:8080 has characters that no key has: a space, a line break or quotes$/;
      expect(() => keyFor("http://judge.example:8080/v1", key, {})).toThrow(line);
    }
    expect(keyFor("http://judge.example/v1", " sk-d\n", {})).toBe("sk-d");
  });

  it("is an agent's too, at OpenAI alone", async () => {
    vi.stubEnv("OPENAI_API_KEY", "sk-openai");
    const keyAt = async (playerUrl: string, playerKey?: string) => {
      const config = { playerUrl, playerModel: "m", playerKey, expert: false, toolFormat: "auto" } as Parameters<
        typeof openPlayerFor
      >[0];
      const { spec } = await openPlayerFor(config, () => undefined);
      return spec.kind === "api" ? spec.settings.key : "no API";
    };
    expect(await keyAt("https://api.openai.com/v1")).toBe("sk-openai");
    expect(await keyAt("https://api.openai.com.evil.example/v1")).toBeUndefined();
    expect(await keyAt("https://elsewhere.example/v1", "sk-given")).toBe("sk-given");
    await expect(keyAt("elsewhere")).rejects.toThrow("--player-url: elsewhere is no URL");
  });
});

describe("what a server is sent", () => {
  it("is nothing from the environment where it is not OpenAI's", async () => {
    openAiEnvironment();
    const { url, requests } = await serve(() => completion("yes"));
    await ask(url);
    await ask(url, "sk-given");
    expect(requests.map(({ headers }) => headers.authorization)).toEqual([undefined, "Bearer sk-given"]);
    expect(JSON.stringify(requests)).not.toMatch(secrets);
  });

  it("is the key, the organisation and the project where it is", async () => {
    openAiEnvironment();
    vi.stubEnv("OPENAI_CUSTOM_HEADERS", undefined);
    const sent: Dispatcher.DispatchOptions[] = [];
    vi.spyOn(Agent.prototype, "dispatch").mockImplementation((options) => {
      sent.push(options);
      throw new Error("nothing is sent");
    });
    const url = "https://api.openai.com/v1";
    await expect(ask(url, keyFor(url, undefined))).rejects.toThrow("nothing is sent");
    expect(sent.map(({ origin, path }) => `${origin}${path}`)).toEqual(["https://api.openai.com/v1/chat/completions"]);
    expect(sent[0]?.headers).toMatchObject({
      authorization: "Bearer sk-openai",
      "openai-organization": "org-mine",
      "openai-project": "proj-mine",
    });
  });
});

describe("a redirect", () => {
  it.each([301, 302, 303, 307, 308])(
    "to another server is refused: it gets neither key nor text (%i)",
    async (status) => {
      openAiEnvironment();
      const other = await serve(() => completion("mine now"));
      const location = `${other.url}/chat/completions?key=secret`;
      const { url } = await serve(() => ({ status, json: {}, headers: { location } }));
      const error = await ask(url, "sk-given").catch((caught: unknown) => caught);
      expect(other.requests).toEqual([]);
      expect(error).toBeInstanceOf(ChatError);
      expect((error as Error).message).toBe(
        `${status} it redirects to ${other.url}/chat/completions, and nothing was sent there`,
      );
    },
  );

  it("to no URL is refused with what stands there", async () => {
    const { url, requests } = await serve(() => ({ status: 307, json: {}, headers: { location: "http://[" } }));
    await expect(ask(url)).rejects.toThrow('307 it redirects, but its Location header is no URL: "http://["');
    expect(requests).toHaveLength(1);
  });

  it("within a server is followed with the question and the key, but not for ever", async () => {
    const { url, requests } = await serve(({ path }) =>
      path.endsWith("/") ? completion("yes") : { status: 307, json: {}, headers: { location: `${path}/` } },
    );
    await ask(url, "sk-given");
    expect(requests.map(({ path }) => path)).toEqual(["/v1/chat/completions", "/v1/chat/completions/"]);
    expect(requests[1]).toMatchObject({ body: question, headers: { authorization: "Bearer sk-given" } });

    const round = await serve(({ path }) => ({ status: 308, json: {}, headers: { location: path } }));
    await expect(ask(round.url)).rejects.toThrow(/308 it redirects to/);
    expect(round.requests.length).toBeLessThan(10);
  });
});

describe("a refusal without a body", () => {
  it.each([204, 205, 304])("is an error with its status, not a failed connection (%i)", async (status) => {
    const { url } = await serve(() => ({ status, json: {}, headers: { location: "/v1/elsewhere" } }));
    const error = await ask(url).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ status, message: `${status} an answer without a body` });
  });

  it("says so, also with a status that redirects nowhere or that no standard has", async () => {
    for (const status of [300, 401, 999]) {
      const { url } = await serve(() => ({ status, text: "" }));
      await expect(ask(url)).rejects.toMatchObject({ status, message: `${status} an answer without a body` });
    }
  });
});

describe("a refusal's line", () => {
  it.each([
    [
      "https://judge.example/v1",
      undefined,
      401,
      /^give its key with --judge-key or HONE_JUDGE_KEY \(OPENAI_API_KEY is /,
    ],
    ["https://judge.example/v1", "sk", 403, /^check the key that was given with --judge-key or HONE_JUDGE_KEY$/],
    ["https://api.openai.com/v1", undefined, 401, /^set OPENAI_API_KEY, or give its key with --judge-key or HONE_J/],
    ["https://api.openai.com/v1", "sk", 401, /^check OPENAI_API_KEY, --judge-key or HONE_JUDGE_KEY$/],
    ["https://judge.example/v1", "sk", 308, /^give the base URL of the chat API that is meant as --judge-url/],
  ] as const)("at %s with key %s and status %i names what to give", (url, key, status, line) => {
    expect(refusalHint("judge", { url, key }, status)).toMatch(line);
  });

  it("names an agent's options for an agent", () => {
    const server = { url: "https://agent.example/v1", key: undefined };
    expect(refusalHint("player", server, 401)).toMatch(/--player-key or HONE_PLAYER_KEY/);
    expect(refusalHint("player", server, 500)).toBeUndefined();
    expect(() => checkChatUrl("player", "http://me:pw@host/v1")).toThrow(/^--player-url: no password .* --player-key$/);
  });
});

it.each([
  ["at once", 0],
  ["later", 50],
])("a connection that the server closes %s is a failure, and nothing waits for its answer", async (_, wait) => {
  const port = createServer((socket) => {
    if (wait === 0) socket.destroy();
    else setTimeout(() => socket.destroy(), wait);
  });
  await new Promise<void>((resolve) => port.listen(0, "127.0.0.1", resolve));
  const { port: number } = port.address() as { port: number };
  const asked = ask(`http://127.0.0.1:${number}/v1`);
  await expect(asked).rejects.toMatchObject({ kind: "connection", text: expect.stringContaining("closed") });
  port.close();
});

describe("what no other attempt mends", () => {
  it.each([
    ["a port that fetch does not ask", async () => "http://127.0.0.1:6000/v1", /port is one that no HTTP client asks/],
    [
      "a proxy that wants a password",
      async () => (await serve(() => ({ status: 407, json: {} }))).url,
      /a proxy before it wants a name and a password/,
    ],
  ])("is told at once: %s", async (_, url, text) => {
    const error = await ask(await url()).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ kind: "refused", status: 0, text: expect.stringMatching(text) as string });
  });
});

/** Of an issuer that nobody knows: itself, for 127.0.0.1, until 2126. */
const certificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgqI5Q4HRuknQ66bK2
tYHfZLhWdfwHnrhCBMUsO6UTcDShRANCAAQaHBUFJVvel/uL7GVS+eko1UFjFy/3
jfljBpv2+dgUCcKiYQiekayEcpkgRkL1Ghh7eFGWhaJH+GodOwk9z1+O
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBjzCCATagAwIBAgIUfbRBuxkFKntBN8WjzDVncyMwD2wwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEyOTAyMDkxNloYDzIxMjYxMTA1
MDIwOTE2WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQaHBUFJVvel/uL7GVS+eko1UFjFy/3jfljBpv2+dgUCcKiYQiekayE
cpkgRkL1Ghh7eFGWhaJH+GodOwk9z1+Oo2QwYjAdBgNVHQ4EFgQUEMjS6B5Evj1A
kNKbOOywkCSB7kIwHwYDVR0jBBgwFoAUEMjS6B5Evj1AkNKbOOywkCSB7kIwDwYD
VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0cAMEQC
IDdbametLXKNvCJzOwvbyYZ+VWbYzhzVeoCxZi+bB3sOAiBcXYcRmqn1y3mbzhJn
zs6ymiMGzzH3hKiMTM9WxDsX2w==
-----END CERTIFICATE-----`,
};

describe("a server's TLS", () => {
  const failure = async (url: string): Promise<ChatError> => (await ask(url).catch((error) => error)) as ChatError;
  const advice = (url: string, error: ChatError) => adviceFor("judge", { url, key: undefined }, error);

  it("that is none is told at once, with what to give", async () => {
    const { port } = await serve(() => completion("yes"));
    const url = `https://127.0.0.1:${port}/v1`;
    const error = await failure(url);
    expect(error).toMatchObject({ kind: "refused", status: 0, text: "it does not speak TLS" });
    expect(advice(url, error)).toBe("give its --judge-url with http://");
  });

  it("with a certificate that is not trusted is told at once, with where to name its issuer", async () => {
    const server = createTlsServer(certificate, (_, response) => response.end("{}"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `https://127.0.0.1:${(server.address() as { port: number }).port}/v1`;
    const error = await failure(url);
    expect(error).toMatchObject({ kind: "refused", status: 0 });
    expect(error.text).toMatch(/^its certificate is not trusted \(.*self-signed certificate.*\)$/);
    expect(advice(url, error)).toBe("name the certificate of its issuer in NODE_EXTRA_CA_CERTS=FILE");
    server.close();
  });
});
