"""NVIDIA FLARE around the same sites and the same hub: mutual TLS, start-up kits, one machine a registry."""
