"""A run's folder to one HTML file: the answer first, then the findings, tables, figures and methods."""
