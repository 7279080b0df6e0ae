"""Train, validation, test and unseen images: protocols, hospitals, duplicates, leakage."""
