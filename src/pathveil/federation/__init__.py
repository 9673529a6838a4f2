"""One model from registries that share no reports: the distribution paper's training, embedded or over a network."""
