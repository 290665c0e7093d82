"""Prefect, MLflow and S3 for one machine: started, found again and stopped."""
