/** The page on which a person looks scenarios over. */
import { basename } from "node:path";
import { z } from "zod";
import { UsageError } from "../../core/util/errors.js";
import type { ScenarioFile, ScenarioRow } from "../../scenarios/file.js";
import { type LiveServer, servePage } from "./loopback.js";
import { pageOf } from "./page.js";

const text = z.string().trim().min(1).max(10_000);
const decisionSchema = z.discriminatedUnion("action", [
  z.strictObject({ action: z.enum(["keep", "drop"]), id: z.string() }),
  z.strictObject({ action: z.literal("edit"), id: z.string(), question: text, answer: text }),
]);

/** What a person decided about a scenario. */
export type Decision = z.output<typeof decisionSchema>;

/** The file that is looked over. */
export interface ReviewSource {
  readonly file: string;
  read(): ScenarioFile;
  /**
   * Writes what the person decided, and returns the row as it is now.
   * @throws UsageError for an unknown id, and for a text that is empty
   */
  decide(decision: Decision): ScenarioRow;
}

function readDecision(sent: unknown): Decision {
  const parsed = decisionSchema.safeParse(sent);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new UsageError(`${issue?.path.join(".") || "the decision"}: ${issue?.message}`);
}

/**
 * @param port 0 for any free port
 * @throws HoneError when the port is taken, or the page has not been built
 */
export function serveReview(source: ReviewSource, port: number): Promise<LiveServer> {
  const page = pageOf(`${basename(source.file)} · hone scenarios review`, "self", [
    { id: "review", content: { file: source.file } },
  ]);
  const isScenarios = ({ pathname }: URL) => pathname === "/api/scenarios";
  return servePage(
    page,
    {
      get: async (url) => (isScenarios(url) ? source.read() : undefined),
      post: async (url, sent) => (isScenarios(url) ? source.decide(readDecision(sent)) : undefined),
    },
    port,
  );
}
