/** Which of hone's options reach a task: it reads them in `open` and `scenarios`. */
import type { Config } from "../config/index.js";
import type { TaskOptions } from "./task.js";

export const taskOptionsOf = ({ home, db, rank }: Pick<Config, "home" | "db" | "rank">): TaskOptions => ({
  home,
  db,
  rank,
});
