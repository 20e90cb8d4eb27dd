/**
 * The Hugging Face Hub: one downloader for models and data, into the cache that Hugging Face's own tools share.
 *
 * Written here because Python's `huggingface_hub` neither continues a broken download in a new process nor compares what
 * came with its SHA-256, and because playing a finished model file needs no Python: docs/models.md says more.
 */
export {
  bytesIn,
  cachedRepositories,
  checksumOfLink,
  folderName,
  missingPart,
  type Repository,
  RepositoryCache,
} from "./cache.js";
export { type AskedFiles, fetchDataset } from "./dataset.js";
export { checksumOf, downloadFiles, freeBytes } from "./download.js";
export { HubUnreachable } from "./http.js";
export { type Listing, listRepository, NotOnHub } from "./listing.js";
export { type HubConfig, type HubOptions, type HubProgress, hubOptionNames, hubOptionsOf, notHere } from "./options.js";
export { downloadLine, Rate, sizeText } from "./progress.js";
