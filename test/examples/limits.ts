/** Limits for an example's expert, who needs none of them. */
export const limits = {
  maxTurns: 10,
  maxTokens: 100,
  turnSeconds: 10,
  toolSeconds: 10,
  rolloutSeconds: 60,
  onToolError: "observe",
} as const;
