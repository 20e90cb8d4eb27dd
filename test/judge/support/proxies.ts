/**
 * What servers and the proxies before them make of the API, after public reports: LiteLLM, one-api and new-api, OpenRouter, vLLM,
 * DashScope, DeepSeek, Moonshot, Zhipu, MiniMax, Gemini, Azure, Groq, and pages of web servers.
 */
import { brotliCompressSync, gzipSync } from "node:zlib";
import { completion, type Entry, honest, type Reply, type Request, scoresText } from "./server.js";

/** What one proxy does, and what has to come of it. */
export interface Quirk {
  readonly name: string;
  answer(request: Request, index: number): Reply;
  /** `scores`: the honest ones. A text: why there is no verdict. A pattern: the line with which the judge stops. */
  readonly gives: "scores" | string | RegExp;
  /** One line that tells what is left out, or estimated. */
  readonly told?: RegExp;
}

const isRule = (request: Request) => request.body.messages.some(({ role }) => role === "system");
const isPlain = ({ body }: Request) => body.response_format === undefined;
/** What an honest judge writes; a small question has no attempts. */
const verdict = (request: Request) => scoresText(honest(request));
const answered = (request: Request, more: object = {}) => completion(verdict(request), more);
const bodyOf = (reply: Reply) => (reply as { json: Record<string, unknown> }).json;
const errors = (status: number, error: unknown, headers: Record<string, string> = {}): Reply => ({
  status,
  json: { error },
  headers,
});

/** A completion with other fields at its top. */
const topped = (request: Request, more: object): Reply => ({ json: { ...bodyOf(answered(request)), ...more } });
/** An answer of the model in its own form. */
const says = (
  name: string,
  write: (entries: Entry[], text: string) => string,
  gives: Quirk["gives"] = "scores",
): Quirk => ({
  name,
  answer: (request) => completion(write(honest(request), verdict(request))),
  gives,
});
/** Refuses requests with a field, in its own words. */
const refuses = (name: string, has: (request: Request) => unknown, refusal: Reply, told: RegExp): Quirk => ({
  name,
  answer: (request) => (has(request) ? refusal : answered(request)),
  gives: "scores",
  told,
});
const always = (name: string, reply: Reply, gives: Quirk["gives"]): Quirk => ({ name, answer: () => reply, gives });
/** Fails the first time. */
const once = (name: string, reply: Reply): Quirk => ({
  name,
  answer: (request, index) => (index === 0 ? reply : answered(request)),
  gives: "scores",
});
const surrounds = (name: string, answer: (request: Request) => Reply, told?: RegExp): Quirk => ({
  name,
  answer,
  gives: "scores" as const,
  ...(told ? { told } : {}),
});

const temperature = ({ body }: Request) => body.temperature !== undefined;
const limit = ({ body }: Request) => body.max_tokens !== undefined;
const schema = ({ body }: Request) => body.response_format?.type === "json_schema";
const format = (request: Request) => !isPlain(request);

export const refusing: readonly Quirk[] = [
  refuses(
    "a temperature, in Chinese",
    temperature,
    errors(400, {
      message: "该模型不支持参数 temperature，仅支持默认值 1 (request id: 20261)",
      type: "upstream_error",
      param: "",
    }),
    /^the judge does not take temperature \(400 该模型不支持参数 temperature.*\); not sent from now on$/,
  ),
  refuses(
    "a temperature, without naming it",
    temperature,
    errors(400, {
      message: "openai_error",
      type: "bad_response_status_code",
      param: "",
      code: "bad_response_status_code",
    }),
    /does not take temperature \(400 openai_error\)/,
  ),
  refuses(
    "a temperature, by 500",
    temperature,
    errors(500, {
      message: "litellm.APIConnectionError: 'temperature' does not support 0.5 with this model.",
      code: "500",
    }),
    /does not take temperature \(500 litellm/,
  ),
  refuses(
    "a temperature, by 500 and in no words",
    temperature,
    errors(500, { message: "服务器内部错误" }),
    /does not take temperature \(500 服务器内部错误\)/,
  ),
  refuses(
    "a temperature, by 403 with a code",
    temperature,
    errors(403, { message: "参数不在允许范围内", code: "param_not_allowed" }),
    /does not take temperature \(403 参数/,
  ),
  refuses(
    "a temperature, by 422 of FastAPI",
    temperature,
    { status: 422, json: { detail: [{ loc: ["body", "temperature"], msg: "Extra inputs are not permitted" }] } },
    /does not take temperature \(422 /,
  ),
  refuses(
    "a temperature, by an error with 200",
    temperature,
    { json: { code: 20015, message: "The parameter is invalid. Please check again.", data: null } },
    /does not take temperature \(200 The parameter is invalid/,
  ),
  refuses(
    "a temperature, in another server's error",
    temperature,
    errors(400, {
      message: "Provider returned error",
      code: 400,
      metadata: {
        raw: '{"error":{"message":"temperature: only 1 is allowed","param":"temperature"}}',
        provider_name: "M",
      },
    }),
    /does not take temperature \(400 Provider returned error: temperature: only 1 is allowed\)/,
  ),
  refuses(
    "a temperature, in a list",
    temperature,
    { status: 400, json: [{ error: { code: 400, message: "Unknown name", status: "INVALID_ARGUMENT" } }] },
    /does not take temperature \(400 Unknown name\)/,
  ),
  refuses(
    "a schema that it does not have",
    schema,
    errors(400, {
      message: "This response_format type is unavailable now",
      type: "invalid_request_error",
      param: null,
    }),
    /does not take response_format json_schema .*asking for JSON without a schema/,
  ),
  refuses(
    "a keyword of the schema",
    schema,
    errors(400, {
      message: "Invalid schema for response_format 'scores': 'minItems' is not permitted.",
      param: "response_format",
    }),
    /does not take response_format json_schema/,
  ),
  refuses(
    "a schema, in no words",
    schema,
    errors(400, { message: "请求参数错误" }),
    /does not take response_format json_schema \(400 请求/,
  ),
  refuses(
    "every format, by 405",
    format,
    {
      status: 405,
      json: { status: "failure", error: { message: "json_object response format is not supported", code: "405" } },
    },
    /does not take response_format json_schema and json_object .*plain text/,
  ),
  refuses(
    "every format, by 404",
    format,
    errors(404, { message: "No endpoints found that can handle the requested parameters.", code: 404 }),
    /plain text/,
  ),
  refuses(
    "max_tokens",
    limit,
    errors(400, {
      message: "Use 'max_completion_tokens' instead.",
      param: "max_tokens",
      code: "unsupported_parameter",
    }),
    /does not take max_tokens \(.*sending max_completion_tokens from now on/,
  ),
  refuses(
    "a limit under any name",
    ({ body }) => body.max_tokens ?? body.max_completion_tokens,
    errors(400, { message: "max_tokens or max_completion_tokens is too large: 2000" }),
    /does not take max_tokens and max_completion_tokens .*not sent from now on/,
  ),
  refuses(
    "messages of the system",
    isRule,
    errors(400, {
      message: "'messages[0].role' does not support 'system' with this model.",
      param: "messages[0].role",
    }),
    /does not take messages of the system .*before the user's/,
  ),
  {
    ...refuses(
      "all but streams",
      ({ body }) => body.stream !== true,
      errors(400, {
        message: "This model only support stream mode, please enable the stream parameter to access the model.",
      }),
      /does not take stream: false .*reading streams from now on/,
    ),
    answer: (request) =>
      request.body.stream === true
        ? streamed(request)
        : errors(400, {
            message: "This model only support stream mode, please enable the stream parameter.",
            code: "invalid_parameter_error",
          }),
  },
  refuses(
    "a field stream",
    ({ body }) => "stream" in body,
    { status: 422, json: { detail: "unknown field: stream" } },
    /stream: false .*not sent/,
  ),
];

type Piece = { content?: unknown; reasoning_content?: string; role?: string };

/** A stream of the answer in two halves. */
function streamed(
  request: Request,
  {
    end = "data: [DONE]\n\n",
    lines = "\n",
    finish = "stop" as string | null,
    before = "",
    first = [] as Piece[],
    type = "text/event-stream",
  } = {},
): Reply {
  const text = verdict(request);
  const half = text.length >> 1;
  const chunk = (delta: Piece, finish_reason: string | null = null, more: object = {}) =>
    `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }], ...more })}\n\n`;
  const chunks = [
    ...first,
    { role: "assistant", content: "" },
    { content: text.slice(0, half) },
    { content: text.slice(half) },
  ];
  const usage = { usage: { prompt_tokens: 100, completion_tokens: 20 } };
  const whole = before + chunks.map((delta) => chunk(delta)).join("") + chunk({}, finish, usage) + end;
  return { text: whole.replaceAll("\n", lines), headers: { "content-type": type } };
}

const ESTIMATED = /does not say how many tokens it used; they and their cost are estimated from the texts$/;

export const surrounding: readonly Quirk[] = [
  surrounds("usage of nothing", (request) => topped(request, { usage: {} }), ESTIMATED),
  surrounds("usage null", (request) => topped(request, { usage: null }), ESTIMATED),
  surrounds(
    "usage that counts nothing",
    (request) => topped(request, { usage: { prompt_tokens: 0, completion_tokens: 0 } }),
    ESTIMATED,
  ),
  surrounds("usage of words", (request) => topped(request, { usage: "unknown" }), ESTIMATED),
  surrounds("usage as texts", (request) =>
    topped(request, { usage: { prompt_tokens: "100", completion_tokens: "20" } }),
  ),
  surrounds("usage without the answer's tokens", (request) =>
    topped(request, { usage: { prompt_tokens: 100, total_tokens: 120 } }),
  ),
  surrounds("null and numeric fields", (request) =>
    topped(request, { id: 7, object: null, created: "now", model: null, error: null }),
  ),
  surrounds("parts", (request) =>
    completion(null, {
      content: [
        { type: "thinking", thinking: [{ type: "text", text: '{"scores": []}' }] },
        { type: "text", text: verdict(request).slice(0, 9) },
        { type: "output_text", text: verdict(request).slice(9) },
      ],
    }),
  ),
  surrounds("one part", (request) => completion(null, { content: { type: "text", text: verdict(request) } })),
  surrounds("JSON that was read already", (request) => completion(null, { content: JSON.parse(verdict(request)) })),
  surrounds("thoughts beside it", (request) => answered(request, { reasoning_content: "let me think {not json" })),
  surrounds("all taken for thoughts", (request) => completion(null, { reasoning_content: verdict(request) })),
  surrounds("a frame", (request) => ({ json: { code: 0, message: "success", data: bodyOf(answered(request)) } })),
  surrounds("a text of JSON", (request) => ({ text: JSON.stringify(JSON.stringify(bodyOf(answered(request)))) })),
  surrounds("the content type of text", (request) => ({
    text: JSON.stringify(bodyOf(answered(request))),
    headers: { "content-type": "text/plain; charset=utf-8" },
  })),
  surrounds("no content type", (request) => ({ text: JSON.stringify(bodyOf(answered(request))), headers: {} })),
  surrounds("a mark of the byte order", (request) => ({ text: `\ufeff${JSON.stringify(bodyOf(answered(request)))}` })),
  surrounds("spaces that keep it alive", (request) => ({
    text: `  \n\n \n${JSON.stringify(bodyOf(answered(request)))}`,
  })),
  surrounds("gzip", (request) => ({
    text: gzipSync(JSON.stringify(bodyOf(answered(request)))),
    headers: { "content-type": "application/json", "content-encoding": "gzip" },
  })),
  surrounds("brotli", (request) => ({
    text: brotliCompressSync(JSON.stringify(bodyOf(answered(request)))),
    headers: { "content-type": "application/json", "content-encoding": "br" },
  })),
  surrounds("a stream", (request) => streamed(request)),
  surrounds("a stream, unless none is asked for", (request) =>
    request.body.stream === false ? answered(request) : streamed(request),
  ),
  surrounds("a stream as JSON by its header", (request) => streamed(request, { type: "application/json" })),
  surrounds("a stream without its end", (request) => streamed(request, { end: "" })),
  surrounds("a stream without a reason to stop", (request) => streamed(request, { finish: null })),
  surrounds("a stream without any end", (request) => streamed(request, { finish: null, end: "" })),
  surrounds("a stream with CR LF and comments", (request) =>
    streamed(request, { lines: "\r\n", before: ": OPENROUTER PROCESSING\n\nevent: message\nid: 1\n" }),
  ),
  surrounds("a stream of thoughts first", (request) =>
    streamed(request, {
      first: [{ reasoning_content: "hm, " }, { reasoning_content: '{"scores": []}' }, { content: null }],
    }),
  ),
  surrounds("a stream of one whole completion", (request) => ({
    text: `data: ${JSON.stringify(bodyOf(answered(request)))}\n\ndata: [DONE]\n\n`,
  })),
  surrounds("JSON a line", (request) => {
    const { text } = streamed(request) as { text: string };
    return { text: text.replaceAll("data: ", "").replace("[DONE]", "") };
  }),
];

const page =
  '<!doctype html>\n<html lang="zh"><head><title>New API</title></head><body><div id="root"></div></body></html>';
const html = { "content-type": "text/html; charset=utf-8" };
const NO_CREDIT = "; its account has no credit left$";

export const ending: readonly Quirk[] = [
  always(
    "a web page with 200",
    { text: page, headers: html },
    /cannot be asked: 200 a web page \("New API"\); give the base URL/,
  ),
  always(
    "a web page with 404",
    { text: page, status: 404, headers: html },
    /404 a web page \("New API"\); give the base URL/,
  ),
  always(
    "no such path",
    { text: "404 page not found", status: 404, headers: {} },
    /404 404 page not found; give the base URL/,
  ),
  always(
    "no such path, as JSON",
    { status: 404, json: { detail: "Not Found" } },
    /404 Not Found; check --judge-model, and whether --judge-url/,
  ),
  always(
    "no credit, with 200",
    { json: { error: { message: "该令牌额度已用尽", type: "new_api_error", code: "insufficient_user_quota" } } },
    new RegExp(`200 该令牌额度已用尽${NO_CREDIT}`),
  ),
  always(
    "no credit, with 403",
    errors(403, { message: "用户额度不足", code: "insufficient_user_quota" }),
    new RegExp(`403 用户额度不足${NO_CREDIT}`),
  ),
  always(
    "no credit, with 403 and in words",
    errors(403, { message: "用户额度不足, 剩余额度: ＄0.00" }),
    new RegExp(`403 用户额度不足.*${NO_CREDIT}`),
  ),
  always(
    "no credit, with 429 and OpenAI's code",
    errors(429, { message: "You exceeded your quota", code: "insufficient_quota" }),
    new RegExp(NO_CREDIT),
  ),
  always(
    "no credit, with 429 and a type",
    errors(429, { message: "suspended", type: "exceeded_current_quota_error" }),
    new RegExp(NO_CREDIT),
  ),
  always(
    "no credit, with 429 and a number",
    errors(429, { message: "余额不足或无可用资源包,请充值。", code: "1113" }),
    new RegExp(NO_CREDIT),
  ),
  always(
    "no credit, with 400",
    { status: 400, json: { code: "Arrearage", message: "Access denied, account is not in good standing." } },
    new RegExp(NO_CREDIT),
  ),
  always("no credit, with 402", errors(402, { message: "Insufficient Balance" }), new RegExp(NO_CREDIT)),
  always(
    "a wrong key",
    errors(401, { message: "无效的令牌", type: "new_api_error" }),
    /401 无效的令牌; give its key with --judge-key/,
  ),
  always(
    "a wrong key, with 200",
    { json: { base_resp: { status_code: 1004, status_msg: "login fail" }, choices: null } },
    /200 login fail/,
  ),
  always(
    "a model that no channel has, with 503",
    errors(503, { message: "无可用渠道 (request id: 2026)", code: "model_not_found" }),
    /503 无可用渠道 .*; check --judge-model$/,
  ),
  always(
    "a model that is not there, with 400",
    errors(400, { message: "Model Not Exist", type: "invalid_request_error" }),
    /400 Model Not Exist$/,
  ),
  always("an error with 200, in no words", { json: { success: false, message: "error" } }, /200 error$/),
  always(
    "a filter of questions",
    errors(400, { message: "The prompt triggered the content management policy.", code: "content_filter" }),
    "refused",
  ),
  always(
    "a filter of answers",
    { json: { choices: [{ finish_reason: "content_filter", message: { content: null } }] } },
    "refused",
  ),
  always("a refusal", completion(null, { refusal: "I can't help." }), "refused"),
  always(
    "thoughts up to the limit",
    { json: { choices: [{ finish_reason: "length", message: { content: "", reasoning_content: '{"scores": [' } }] } },
    "cut",
  ),
];

export const passing: readonly Quirk[] = [
  once(
    "a wait in seconds",
    errors(429, { message: "上游负载已饱和，请稍后再试", code: "429" }, { "retry-after": "2" }),
  ),
  once("a wait in milliseconds", errors(429, { message: "slow" }, { "retry-after-ms": "700" })),
  once(
    "a wait in words",
    errors(429, { message: "Rate limit reached. Please try again in 1.2s." }, { "retry-after": "1s" }),
  ),
  once(
    "a quota that renews",
    errors(429, {
      message: "You exceeded your current quota, please check your billing details. Please retry in 36.9s.",
      code: 429,
    }),
  ),
  once(
    "a quota of a minute",
    errors(429, { message: "Quota exceeded for requests per minute", code: "rate_limit_exceeded" }),
  ),
  once("a page of a gateway", { text: page, status: 502, headers: html }),
  once("a failure that passes", errors(500, { message: "oops" })),
  once("a failure of the generation", {
    json: {
      choices: [
        { finish_reason: "error", error: { code: 502, message: "Provider disconnected" }, message: { content: "{" } },
      ],
    },
  }),
  once("a stream that fails", {
    text: 'data: {"choices":[{"delta":{"content":"{"}}]}\n\ndata: {"error":{"message":"overloaded","code":503}}\n\n',
  }),
  once("no choices", { json: { choices: [], usage: { prompt_tokens: 9 } } }),
  once("choices of null", { json: { choices: null } }),
  once("an answer that ends early", { cut: '{"choices": [{"mess' }),
];

const QUOTING = (entries: Entry[], explain: (i: number) => string) =>
  scoresText(entries.map((entry, i) => ({ ...entry, explanation: explain(i) })));

export const writing: readonly Quirk[] = [
  says("a fence", (_, text) => `\`\`\`json\n${text}\n\`\`\``),
  says("words after it", (_, text) => `${text}\n\nIn short: {the first} is "better.`),
  says("words before it", (_, text) => `The user's 5" disk {see "x} \n${text}`),
  says("itself again", (_, text) => `${text}\n${text}`),
  says("a thought that it quotes", (entries) => QUOTING(entries, () => "its <think>plan</think> is short")),
  says("a thought that it quotes and never ends", (entries) =>
    QUOTING(entries, (i) => (i ? "it closes </think>" : "it opens <think>")),
  ),
  says(
    "a thought that it quotes, in a fence",
    (entries) => `\`\`\`json\n${QUOTING(entries, () => "</think> <think>")}\n\`\`\``,
  ),
  says(
    "thoughts, and one that it quotes",
    (entries) => `<think>{"scores": []}</think>${QUOTING(entries, () => "a </think> alone")}`,
  ),
  says("thoughts that were opened in the prompt", (_, text) => `a draft {"scores": []} \n</think>\n${text}`),
  says(
    "thoughts in thoughts",
    (_, text) => `<think>one <think>two {"scores": []}</think> three {"scores": [1]}</think>${text}`,
  ),
  ...["thinking", "thought", "reasoning", "seed:think"].map((tag) =>
    says(`thoughts in <${tag}>`, (_, text) => `<${tag}>{"scores": []}</${tag}>${text}`),
  ),
  says("thoughts in brackets", (_, text) => `[THINK]{"scores": []}[/THINK]${text}`),
  says("thoughts between triangles", (_, text) => `◁think▷{"scores": []}◁/think▷${text}`),
  says(
    "thoughts in a channel",
    (_, text) =>
      `<|channel|>analysis<|message|>{"scores": []}<|end|><|start|>assistant<|channel|>final<|message|>${text}`,
  ),
  says("scores as texts", (entries) => scoresText(entries.map((entry) => ({ ...entry, score: String(entry.score) })))),
  says("ids as numbers", (entries) =>
    scoresText(entries.map((entry) => ({ ...entry, trajectory_id: Number(entry.trajectory_id) }))),
  ),
  says("ids with a name", (entries) =>
    scoresText(entries.map((entry) => ({ ...entry, trajectory_id: `trajectory_${entry.trajectory_id}` }))),
  ),
  says("no explanations", (entries) =>
    JSON.stringify({ scores: entries.map(({ explanation: _, ...entry }) => entry) }),
  ),
  says("explanations of null", (entries) => scoresText(entries.map((entry) => ({ ...entry, explanation: null })))),
  says("a comma too much", (_, text) => text.replace("]}", ",]}")),
  says("a line break in a text", (_, text) => text.replace("quality", "the\nquality")),
  says("an escape that JSON has not", (_, text) => text.replace("quality", "\\(x\\) \\\\(y) quality")),
  says("a frame", (_, text) => `{"answer": ${text}}`),
  says("a text of JSON", (_, text) => JSON.stringify(text)),
  says("a list alone", (entries) => JSON.stringify(entries), "not_json"),
  says("quotes that nobody can tell apart", (_, text) => text.replace("quality", 'says "hello" to'), "not_json"),
  says("commas of another script", (_, text) => text.replaceAll(",", "，"), "not_json"),
  says("scores up to ten", (entries) => scoresText(entries.map((entry) => ({ ...entry, score: 8 }))), "out_of_range"),
  says(
    "scores in per cent",
    (entries) => scoresText(entries.map((entry) => ({ ...entry, score: "80%" }))),
    "wrong_form",
  ),
];
