"""A model on disk, and at work: weights, words, labels and evidence in a folder that checks itself when opened."""

from pathveil.bundle.model import Model, attach_audit

__all__ = ["Model", "attach_audit"]
