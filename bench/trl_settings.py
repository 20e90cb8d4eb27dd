"""What GRPOTrainer is told wherever hone is compared with TRL: hone's defaults, one log line a step, and no files."""

AS_HONE = dict(
    lr_scheduler_type="constant",
    temperature=1.0,
    beta=0.0,
    gradient_checkpointing=False,
    save_strategy="no",
    report_to=[],
    logging_steps=1,
)

UNTRUNCATED = dict(top_k=0, loss_type="dapo")
"""Sampled from the whole distribution, a mean over the tokens of all rollouts."""
