"""Pathveil: text classifiers for cancer pathology reports across registries, and what an attacker learns from them.

The package reads in the order data flows: ``corpus`` (reports in), ``text`` (a report to tokens), ``vocabulary`` (the
words a model may know), ``model`` (token batches to logits), ``training``, ``bundle`` (a model on disk), ``federation``
and ``audit``, ``study``, ``report`` and last ``cli``. A room imports only the rooms before it.
"""

__version__ = "0.1.0"
