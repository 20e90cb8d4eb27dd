"""The recipe of hone's tiny model: `yarn tiny-model`, which runs `python -m recipe` with PYTHONPATH=models/tiny."""
