"""Prediction of files and folders: find the inputs, predict, write masks and a record."""
