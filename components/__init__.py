"""The parts of the pipeline in plain Python, independent of Prefect and environment variables.

Each heavy library (torch, deepspeed, mlflow, boto3) is imported inside the one module that needs it.
"""
