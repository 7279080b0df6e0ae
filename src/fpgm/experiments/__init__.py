"""The runs behind the tables, and the engines that compute them: this process, several, a Ray or SLURM cluster."""
