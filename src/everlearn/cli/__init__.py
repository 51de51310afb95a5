"""The command line: `app.py` is the program, and each other module a group of commands."""

from everlearn.cli import experiments, models, recipes, removing, serving
from everlearn.cli.app import app, main

__all__ = ["app", "experiments", "main", "models", "recipes", "removing", "serving"]
