"""Membership audits: what an attacker can learn from a model.

An audit goes one way: models that saw a record and models that did not (``shadows``), attacks (``attacks``, ``lira``,
``rmia``, ``shokri``; ``all_attacks`` runs them), what they found with intervals (``metrics``, ``evidence``) and whether
that can be believed (``controls``, ``canaries``), the answer (``verdict``), the result and its page (``result``,
``page``, ``charts``). Four ways in: ``bundle_audit``, ``estimator_audit`` and ``studies.encoder_audit``, which share
``model_audit``, and ``prediction_audit``.
"""
