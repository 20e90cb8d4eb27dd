/** Where the turns of a {@link languageModel} are sampled: in this process, or by a server. */
import type { LanguageModelV3CallOptions, SharedV3Warning } from "@ai-sdk/provider";

/** Text that is new in a turn that is sampled. */
export interface Piece {
  readonly content?: string | undefined;
  readonly reasoning_content?: string | undefined;
}

/** A turn of the model. */
export interface Said {
  readonly reasoning: string;
  readonly text: string;
  /** Their arguments as JSON. */
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  /** What ended it: "stop", or the limit. */
  readonly stop: string;
  /** Numbers of tokens; `cached`: those of the prompt whose KV was there. */
  readonly usage: { readonly prompt: number; readonly cached: number; readonly sampled: number };
  /** `providerMetadata.hone` */
  readonly about: Readonly<Record<string, number | boolean | string | null>>;
}

/** A turn that has been asked for. */
export interface Turn {
  readonly warnings: readonly SharedV3Warning[];
  /** Call right before `sample`: in between others would be admitted too. @throws where too many wait */
  admit(): void;
  /** @param gone aborted when nobody reads the turn any more */
  sample(onPiece?: (piece: Piece) => void, gone?: AbortSignal): Promise<Said>;
}

/** All of it throws the errors of the AI SDK. */
export interface Source {
  /** The model's id. */
  readonly name: string;
  begin(options: LanguageModelV3CallOptions): Promise<Turn>;
}
