"""The runs behind the tables, and the engines that compute them: this process, several processes, a Ray or SLURM cluster."""
