"""Sends a run of hone's to TensorBoard or Weights & Biases. Run as `python -m tracker NAME`, with PYTHONPATH=native,
one process for each tracker; see __main__.py."""
