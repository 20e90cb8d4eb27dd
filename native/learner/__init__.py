"""hone's learner: turns batches of trajectories into a better adapter. Run as `python -m learner`, with
PYTHONPATH=native and the interpreter of `.venv`; see __main__.py."""
