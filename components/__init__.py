"""The parts of the pipeline: plain Python that knows nothing of Prefect and reads no environment variables.

Heavy libraries (torch, deepspeed, mlflow, boto3) are imported inside the one module that needs each, so that
`import components` and everything at a border stays light.
"""
