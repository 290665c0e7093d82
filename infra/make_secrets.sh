#!/bin/sh
# Prints new random secrets, one NAME=value a line, for an env file of `infra/compose.yaml` or a Secret of `infra/chart`.
set -eu
random() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
printf 'POSTGRES_PASSWORD=%s\n' "$(random)"
printf 'PREFECT_API_AUTH_STRING=troupe:%s\n' "$(random)"
printf 'MLFLOW_TRACKING_USERNAME=troupe\n'
printf 'MLFLOW_TRACKING_PASSWORD=%s\n' "$(random)"
printf 'MLFLOW_FLASK_SERVER_SECRET_KEY=%s\n' "$(random)"
printf 'AWS_ACCESS_KEY_ID=%s\n' "$(random | cut -c 1-20)"
printf 'AWS_SECRET_ACCESS_KEY=%s\n' "$(random)"
printf 'RAY_AUTH_TOKEN=%s\n' "$(random)"
