"""What an attacker can learn from a model: shadows, attacks, metrics, controls, verdict."""
