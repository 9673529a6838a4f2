"""A model on disk, and at work: weights, words, labels and evidence in a folder that checks itself when opened."""

from pathveil.bundle.folder import Bundle, attach_audit

__all__ = ["Bundle", "attach_audit"]
