"""Secrets are planted in every input and searched in all files, output and process lists of a job."""
