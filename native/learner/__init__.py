"""The learner: turns rollouts into a better adapter. Started by hone as `python -m learner`; see __main__.py."""
