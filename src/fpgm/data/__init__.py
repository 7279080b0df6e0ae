"""From raw pictures to the typed batches a method consumes."""
