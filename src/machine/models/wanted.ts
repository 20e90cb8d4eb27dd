/** What is asked for when a model is resolved, and what is found. */
import type { Config } from "../../core/config/config.js";
import type { ModelShape } from "../../engine/models.js";
import type { HubConfig } from "../hub/hub-options.js";

/** Options for resolving and fetching a model. */
export type ModelConfig = HubConfig & Pick<Config, "weights" | "home"> & Partial<Pick<Config, "python" | "torchIndex">>;

export interface ResolveOptions {
  /** Asks the Hub for a newer commit of the repository even if all files are here. */
  readonly renew?: boolean;
  /**
   * Called with the model's shape once its configuration is known, before weights are fetched or converted; may throw
   * to refuse it.
   */
  inspect?(shape: ModelShape): void | Promise<void>;
}

export interface ResolvedModel {
  /** The GGUF file that the engine loads. */
  readonly file: string;
  /** The Hugging Face folder that it was converted from, if any. */
  readonly source: string | undefined;
  /** The GGUF file that it was written from with other weights, if any. */
  readonly original: string | undefined;
}
