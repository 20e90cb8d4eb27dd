/** Defaults that other rooms need too. */

/** The model that comes with hone. */
export const DEFAULT_MODEL = "tiny";

/** Tasks that come with hone, by name. */
export const OWN_TASKS = ["email", "openenv"] as const;

/** Default tokens of a conversation, if the model supports as many. */
export const CONTEXT = 8192;

/** Default tokens of one call of llama.cpp: a pass over the weights evaluates all of them or a part. */
export const BATCH = 2048;

/** Default number of concurrent rollouts; outside training that of a CPU. */
export const ROLLOUTS_AT_ONCE = { cpu: 16, gpu: 64 } as const;

/** Seconds that a task's own code may take where `--task-timeout` is not given. */
export const TASK_SECONDS = 300;
