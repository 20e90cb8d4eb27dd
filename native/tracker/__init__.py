"""Shows a run of hone's in TensorBoard or in Weights & Biases. Run as `python -m tracker NAME`, with PYTHONPATH=native,
one process for each tracker; see __main__.py."""
