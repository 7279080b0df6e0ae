"""Tables, figures and pages from results; opens no network and no model."""
