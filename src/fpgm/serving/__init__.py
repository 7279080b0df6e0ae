"""From a trained model to masks: prediction, export, a web page."""
