"""hone's learner: turns batches of trajectories into a better LoRA adapter. Run as `python -m learner`, with
PYTHONPATH=native and the interpreter of `.venv`."""
