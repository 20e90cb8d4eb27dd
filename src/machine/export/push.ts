/** Pushes a folder to a repository of the Hub, with Hugging Face's own library in the learner's environment. */
import { UsageError } from "../../core/util/errors.js";
import type { HubOptions } from "../hub/hub-options.js";
import type { ModelIo } from "../models/io.js";
import { runModule } from "../models/program.js";
import { isRepository } from "../models/reference.js";

/** How to reach the Hub from this network. */
const NETWORK = [
  ...["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"].flatMap((name) => [name, name.toLowerCase()]),
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
];

/** @throws UsageError before anything is written, if the push would fail */
export function checkPush(repository: string | undefined, hub: HubOptions): void {
  if (repository === undefined) return;
  if (!isRepository(repository)) {
    throw new UsageError(`--push ${repository}: a repository on the Hub is written ORGANISATION/NAME`);
  }
  if (hub.offline) throw new UsageError("--push needs the Hub, and HF_HUB_OFFLINE is set; leave one of them out");
  if (hub.token === undefined) {
    throw new UsageError(`--push ${repository} needs a token that may write there: set HF_TOKEN`);
  }
}

/** @returns the URL of the result */
export async function push(
  folder: string,
  repository: string,
  message: string,
  { endpoint, token }: HubOptions,
  python: string,
  io: ModelIo,
): Promise<string> {
  io.log(`sending ${folder} to ${repository} at ${endpoint}`);
  const network = NETWORK.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]]));
  const env = {
    ...(Object.fromEntries(network) as Record<string, string>),
    HF_HUB_OFFLINE: "0",
    HF_ENDPOINT: endpoint,
    // In the environment, not among the arguments, which other users of the machine can read.
    HF_TOKEN: token ?? "",
    HF_HUB_DISABLE_IMPLICIT_TOKEN: "1",
    // The xet client does not respect the endpoint (native/learner/push.py).
    HF_HUB_DISABLE_XET: "1",
    HF_HUB_DISABLE_TELEMETRY: "1",
    HF_HUB_DISABLE_PROGRESS_BARS: "1",
  };
  const failure = `${folder} is whole, but could not be sent to ${repository}`;
  return await runModule(python, ["learner.push", folder, repository, message], io, failure, env);
}
