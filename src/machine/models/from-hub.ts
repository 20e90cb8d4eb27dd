/** Models of the Hugging Face Hub: the local copy where it is complete, else a download. */
import { join } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { ARCHITECTURES } from "../architectures.js";
import { RepositoryCache } from "../hub/cache.js";
import { downloadFiles } from "../hub/download.js";
import { HubUnreachable } from "../hub/http.js";
import { type HubConfig, type HubOptions, hubOptionsOf, notHere } from "../hub/hub-options.js";
import { type Listing, listRepository } from "../hub/listing.js";
import { downloadLine, Rate } from "../hub/progress.js";
import type { Weights } from "./catalogue.js";
import type { ConversionSource } from "./convert.js";
import { checkOneFile, chooseGguf, written } from "./gguf-files.js";
import { type ModelIo, progressTo } from "./io.js";
import { labelOf, type ModelReference } from "./reference.js";
import {
  aboutFiles,
  checkAbout,
  checkConfig,
  ggufFiles,
  hasVocabulary,
  isComplete,
  isUsable,
  needWeights,
  weightFiles,
  whyUnusable,
} from "./source.js";

type HubReference = Extract<ModelReference, { kind: "hub" }>;

/**
 * The GGUF file of a model in a repository, or its folder in Hugging Face format.
 *
 * @param inspect called with a folder that has the configuration, before weights are fetched
 */
export async function fromHub(
  reference: HubReference,
  config: HubConfig & { readonly weights?: Weights | undefined },
  io: ModelIo,
  renew: boolean,
  inspect: (folder: string) => Promise<void>,
): Promise<string | ConversionSource> {
  const rate = new Rate();
  const update = progressTo(io);
  const hub: HubOptions = {
    ...hubOptionsOf(config),
    signal: io.signal,
    log: io.log,
    onProgress: (progress) => update(() => downloadLine(progress, rate)),
  };
  const repository = { kind: "model", id: reference.repository } as const;
  const cache = new RepositoryCache(hub.cache, repository);
  const local = localCopy(reference, cache);
  if (hub.offline && !local) throw offlineWithout(reference, cache);
  if (local && (hub.offline || (local.certain && !renew))) return local.use(config.weights);
  let listing: Listing;
  try {
    // With a local copy, wait less for the Hub.
    listing = await listRepository(repository, reference.revision, local && !renew ? { ...hub, retryDelay: 50 } : hub);
  } catch (error) {
    // With `renew`, an older local copy must not be used in place of the newest.
    if (!(error instanceof HubUnreachable) || !local || renew) throw error;
    io.log(`${error.message}; taking what was downloaded of ${repository.id} before`);
    return local.use(config.weights);
  }
  return download(reference, listing, config.weights, hub, cache, inspect);
}

async function download(
  reference: HubReference,
  listing: Listing,
  weights: Weights | undefined,
  hub: HubOptions,
  cache: RepositoryCache,
  inspect: (folder: string) => Promise<void>,
): Promise<string | ConversionSource> {
  const { repository, revision, file } = reference;
  const paths = listing.files.map(({ path }) => path);
  const asGguf = file !== undefined || (weightFiles(paths).length === 0 && ggufFiles(paths).length > 0);
  if (asGguf) {
    const chosen = chooseGguf(ggufFiles(paths), repository, file, weights);
    const { ggufArchitecture: architecture } = listing;
    if (architecture !== undefined && !ARCHITECTURES.includes(architecture)) {
      throw new HoneError(
        `${repository} cannot be used: its architecture is ${architecture}; hone takes ${ARCHITECTURES.join(", ")}`,
      );
    }
    const folder = await downloadFiles(listing, [chosen], hub);
    cache.nameCommit(revision, listing.commit);
    return join(folder, chosen);
  }
  needWeights(paths, repository);
  // Fetch the small files first; they decide whether the large ones are worth fetching.
  const folder = await downloadFiles(listing, aboutFiles(paths), hub);
  // Recorded so that the reason for a refusal is known offline; a complete copy of an earlier commit stays in use.
  if (cache.commitOf(revision) === undefined) cache.nameCommit(revision, listing.commit);
  checkAbout(folder, repository);
  await inspect(folder);
  await downloadFiles(listing, weightFiles(paths), hub);
  cache.nameCommit(revision, listing.commit);
  return sourceIn(folder, cache.files(listing.commit), reference);
}

function sourceIn(folder: string, paths: readonly string[], reference: HubReference): ConversionSource {
  return { folder, paths, name: reference.repository, label: labelOf(reference) };
}

/** The error for a model that is not available offline. Local files may show that the network would not help. */
function offlineWithout({ repository, revision, file }: HubReference, cache: RepositoryCache): HoneError {
  if (file !== undefined) return notHere(written(repository, file));
  const commit = cache.commitOf(revision);
  const paths = commit === undefined ? [] : cache.files(commit);
  if (commit === undefined || paths.length === 0) {
    return notHere(revision === "main" ? repository : `${repository}@${revision}`);
  }
  const folder = cache.snapshot(commit);
  // Architecture and missing base weights are the same on the Hub.
  if (paths.includes("config.json")) checkConfig(folder, repository);
  if (paths.includes("adapter_config.json") && !paths.includes("config.json")) needWeights(paths, repository);
  // A file may be missing on the Hub as well: a base model has no chat template.
  const about = paths.includes("config.json") && hasVocabulary(paths);
  const refused = about ? whyUnusable(folder, repository) : undefined;
  const what = refused ? `${refused}; if that was merely not downloaded` : `${repository} was downloaded in part`;
  return new HoneError(`${what} (${cache.folder}): run once without HF_HUB_OFFLINE, which fetches the rest`);
}

interface LocalCopy {
  /** Whether the Hub would give the same: of files fetched one by one, it may have others. */
  readonly certain: boolean;
  use(weights: Weights | undefined): string | ConversionSource;
}

/** The local copy of a repository, if it is complete enough to play. */
function localCopy(reference: HubReference, cache: RepositoryCache): LocalCopy | undefined {
  const { repository, revision, file } = reference;
  const commit = cache.commitOf(revision);
  if (commit === undefined) return undefined;
  const folder = cache.snapshot(commit);
  const paths = cache.files(commit);
  if (file !== undefined) {
    if (!paths.includes(file)) return undefined;
    checkOneFile(file, file);
    return { certain: true, use: () => join(folder, file) };
  }
  if (isComplete(paths)) {
    if (!isUsable(folder, repository)) return undefined;
    return { certain: true, use: () => sourceIn(folder, paths, reference) };
  }
  const files = ggufFiles(paths);
  if (files.length === 0 || weightFiles(paths).length > 0) return undefined;
  return { certain: false, use: (weights) => join(folder, chooseGguf(files, repository, undefined, weights)) };
}
