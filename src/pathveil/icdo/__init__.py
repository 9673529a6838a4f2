"""ICD-O-3: lists of codes, codes as registries write them, and which contradict each other."""
