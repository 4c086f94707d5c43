"""How jobs are run: here, in worker processes or on a cluster, with progress, resume and a word on failures."""
