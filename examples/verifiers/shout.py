"""An environment of verifiers: say a word, but loudly."""

import verifiers.v1 as vf

WORDS = ["yes", "no", "perhaps", "never", "always", "often", "maybe", "indeed", "soon", "later"]


class ShoutData(vf.TaskData):
    answer: str


class ShoutTask(vf.Task[ShoutData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(self.data.answer in (trace.last_reply or ""))

    @vf.reward(weight=0.1)
    async def brief(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply or "") < 20)


class ShoutTaskset(vf.Taskset[ShoutTask, vf.TasksetConfig]):
    def load(self) -> list[ShoutTask]:
        return [
            ShoutTask(ShoutData(prompt=f"Say {word}, but loudly.", answer=f"{word.upper()}!"), self.config.task)
            for word in WORDS
        ]


__all__ = ["ShoutTaskset"]
