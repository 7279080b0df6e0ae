"""From a model to its next version: which images to label next, and predictions to correct in annotation tools."""
