/** Turns of a model of this process, of a rollout's or of one that is served: no server is between. */
import { chatCompletion } from "../../serve/chat-route.js";
import type { ServedModel } from "../../serve/model.js";
import { readChatRequest } from "../../serve/requests.js";
import type { Answered, Source } from "./source.js";

/** @param checked whether requests are checked as those that come by HTTP; a rollout's rules are its model's */
export function inProcess(model: ServedModel, checked: boolean): Source {
  return {
    name: model.name,
    url: "hone:in-process",
    rules: model,
    ask: (asked, signal) =>
      new ReadableStream<Answered>({
        async start(answers) {
          const event = (value: object) => answers.enqueue(value as Answered);
          const end = () => answers.close();
          const json = (value: object) => {
            event(value);
            end();
          };
          try {
            const request = checked ? readChatRequest(asked) : asked;
            await chatCompletion(model, request, { signal, json, event, end });
          } catch (error) {
            // One that its own signal causes is no answer of the model.
            if (!signal.aborted) model.onError(error);
            answers.error(error);
          }
        },
      }),
  };
}
