/**
 * The Hugging Face Hub: one downloader for models and data, into the cache that Hugging Face's own tools share.
 *
 * Written here because Python's `huggingface_hub` neither resumes a download in a new process nor checks the SHA-256 of
 * the content, and because playing a GGUF file needs no Python: see docs/models.md.
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
export { type HubConfig, type HubOptions, type HubProgress, hubOptionsOf, notHere } from "./options.js";
export { downloadLine, Rate, sizeText } from "./progress.js";
