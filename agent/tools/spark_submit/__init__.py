"""Spark jobs handed to `spark-submit`: what can be checked is checked first, here, and the job's exit code is ours.

Owns the archive of our code, the command line and the process. Imports neither Spark nor the jobs.
"""
