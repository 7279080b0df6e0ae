"""Use of a trained model: prediction, adaptation, export, a web page."""
