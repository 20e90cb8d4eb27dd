/** Who plays: plain data, so that it can be sent to worker threads. */
import type { EngineOptions } from "../engine/engine.js";
import type { ExpertOptions } from "../task/task.js";
import type { ChatSettings } from "./conversation.js";
import type { SamplingSettings } from "./engine-session.js";

export interface EnginePlayer {
  readonly kind: "engine";
  readonly engine: EngineOptions;
  readonly sampling: SamplingSettings;
  readonly chat?: ChatSettings;
  /** SHA-256 of the adapter in use, null for the base model. The adapter itself is set by the engine's owner. */
  readonly adapter: string | null;
}

/** A model behind an OpenAI-compatible API; keys and names as its server has them. */
export interface ApiSettings {
  /** "http://127.0.0.1:8000/v1" */
  readonly url: string;
  readonly key: string | undefined;
  readonly model: string;
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
}

export type PlayerSpec =
  | EnginePlayer
  | { readonly kind: "api"; readonly settings: ApiSettings }
  | { readonly kind: "expert"; readonly mistakes: NonNullable<ExpertOptions["mistakes"]> };
