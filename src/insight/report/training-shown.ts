/** A training on a terminal: the events of `trainRun` as lines and a progress display. */
import type { ProgressLine } from "./progress-line.js";
import { TrainView } from "./train-view.js";

type Arguments<K extends keyof TrainView> = TrainView[K] extends (...about: infer A) => unknown ? A : never;

export function shownTraining(progress: ProgressLine) {
  let view: TrainView | undefined;
  return {
    log: (text: string) => progress.log(text),
    onStart: ({ steps, judged }: { readonly steps: number; readonly judged: boolean }) => {
      view = new TrainView(progress, steps, judged);
    },
    onPhase: (...about: Arguments<"phase">) => view?.phase(...about),
    onRollout: (...about: Arguments<"rollout">) => view?.rollout(...about),
    onRewarded: (...about: Arguments<"rewarded">) => view?.rewarded(...about),
    onProgress: (...about: Arguments<"progress">) => view?.progress(...about),
    onStep: (...about: Arguments<"step">) => view?.step(...about),
    onValidation: (...about: Arguments<"validation">) => view?.validation(...about),
  };
}
