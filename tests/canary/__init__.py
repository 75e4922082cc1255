"""Secrets planted in every input, and searched for in every file, stream and process list that a job leaves."""
