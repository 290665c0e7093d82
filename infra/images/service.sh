#!/bin/sh
# One of the services around a cluster, in the foreground, for `infra/compose.yaml` and `infra/chart`.
#
#     troupe-service postgres|seaweedfs|prefect|mlflow|deploy|worker
#
# Addresses and secrets come from the environment; each service says below which it reads. Passwords are quoted where a URL holds them.
set -eu
need() {
    for name; do
        eval "[ -n \"\${$name-}\" ]" || {
            echo "troupe-service: $name is not set" >&2
            exit 64
        }
    done
}
# The URL of one database: `database_url DRIVER NAME`.
database_url() {
    need POSTGRES_HOST POSTGRES_PASSWORD
    DRIVER=$1 NAME=$2 python3 -c 'import os, urllib.parse as u; e = os.environ.get
print("postgresql+{}://{}:{}@{}:{}/{}".format(e("DRIVER"), e("POSTGRES_USER", "troupe"), u.quote(e("POSTGRES_PASSWORD"), safe=""),
      e("POSTGRES_HOST"), e("POSTGRES_PORT", "5432"), e("NAME")))'
}
wait_for() {
    echo "troupe-service: waiting for $1"
    until python3 -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=2)' "$1" 2>/dev/null; do sleep 1; done
}

serve_postgres() { # POSTGRES_PASSWORD; data in /data
    need POSTGRES_PASSWORD
    PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
    if [ ! -s /data/PG_VERSION ]; then
        secret=$(mktemp)
        printf %s "$POSTGRES_PASSWORD" >"$secret"
        initdb -D /data --username="${POSTGRES_USER-troupe}" --pwfile="$secret" --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8
        rm -f "$secret"
        echo 'host all all all scram-sha-256' >>/data/pg_hba.conf
        for name in prefect mlflow mlflow_auth; do echo "CREATE DATABASE $name;"; done |
            postgres --single -D /data postgres >/dev/null
    fi
    exec postgres -D /data -c listen_addresses='*' -c unix_socket_directories=/tmp
}

serve_seaweedfs() { # AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, BUCKET; data in /data
    need AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
    umask 077
    identities=$(mktemp)
    python3 -c 'import json, os; print(json.dumps({"identities": [{"name": "troupe", "credentials": [{"accessKey":
os.environ["AWS_ACCESS_KEY_ID"], "secretKey": os.environ["AWS_SECRET_ACCESS_KEY"]}],
"actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}))' >"$identities"
    python3 - <<'MAKE_BUCKET' &
import boto3, os, time
from botocore.exceptions import BotoCoreError, ClientError
s3, made = boto3.client("s3", endpoint_url="http://127.0.0.1:8333", region_name="us-east-1"), False
while not made:
    try:
        s3.create_bucket(Bucket=os.environ.get("BUCKET", "troupe"))
        made = True
    except ClientError as error:
        made = error.response["Error"]["Code"].startswith("BucketAlready")
    except BotoCoreError:
        pass
    time.sleep(1)
MAKE_BUCKET
    # Master, volume and filer answer inside of this container alone; what others reach is S3, which asks for a key.
    exec weed -logtostderr=true server -dir=/data -ip=127.0.0.1 -ip.bind=127.0.0.1 -filer -s3 -s3.ip.bind=0.0.0.0 -s3.port=8333 \
        -s3.config="$identities" -s3.iam=false -s3.port.iceberg=0 -s3.port.lance=0 -master.telemetry=false \
        -master.resumeState=false -master.volumeSizeLimitMB=1024 -volume.max=0 -volume.preStopSeconds=0
}

serve_prefect() { # POSTGRES_*, PREFECT_SERVER_API_AUTH_STRING
    need PREFECT_SERVER_API_AUTH_STRING
    PREFECT_SERVER_DATABASE_CONNECTION_URL=$(database_url asyncpg prefect)
    export PREFECT_SERVER_DATABASE_CONNECTION_URL
    # The pages are filled in at the start, in a folder that can be written; those of the older generation, to which clients link.
    export PREFECT_UI_API_URL=/api PREFECT_UI_STATIC_DIRECTORY=/tmp/prefect-ui PREFECT_SERVER_UI_V2_ENABLED=false
    exec prefect server start --host 0.0.0.0 --port 4200
}

serve_mlflow() { # POSTGRES_*, MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD, MLFLOW_FLASK_SERVER_SECRET_KEY, ARTIFACTS
    need MLFLOW_TRACKING_USERNAME MLFLOW_TRACKING_PASSWORD MLFLOW_FLASK_SERVER_SECRET_KEY ARTIFACTS
    umask 077
    MLFLOW_AUTH_CONFIG_PATH=$(mktemp)
    MLFLOW_BACKEND_STORE_URI=$(database_url psycopg2 mlflow)
    # Its name and password are only read while no user exists. The cache spares a slow hash for each call.
    {
        echo '[mlflow]'
        echo 'default_permission = NO_PERMISSIONS'
        echo "database_uri = $(database_url psycopg2 mlflow_auth | sed 's/%/%%/g')"
        echo "admin_username = $MLFLOW_TRACKING_USERNAME"
        echo "admin_password = $(printf %s "$MLFLOW_TRACKING_PASSWORD" | sed 's/%/%%/g')"
        echo 'authorization_function = mlflow.server.auth:authenticate_request_basic_auth'
        echo 'grant_default_workspace_access = false'
        echo 'auth_cache_ttl_seconds = 60'
    } >"$MLFLOW_AUTH_CONFIG_PATH"
    export MLFLOW_AUTH_CONFIG_PATH MLFLOW_BACKEND_STORE_URI MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false
    exec mlflow server --app-name basic-auth --host 0.0.0.0 --port 5000 --workers 1 --artifacts-destination "$ARTIFACTS" \
        --allowed-hosts "${MLFLOW_ALLOWED_HOSTS-*}"
}

deploy() { # PREFECT_API_URL, PREFECT_API_AUTH_STRING: the work pool, every deployment of the folder and the package, the automations
    need PREFECT_API_URL
    wait_for "$PREFECT_API_URL/health"
    exec python3 -P -m infra.register "$@"
}

serve_worker() { # the same, and what runs need: AWS_*, MLFLOW_*
    need PREFECT_API_URL
    wait_for "$PREFECT_API_URL/health"
    exec prefect --no-prompt worker start --pool troupe --type "${1:-process}" --name "${WORKER_NAME-$(hostname)}" --with-healthcheck
}

service=${1-}
[ $# -eq 0 ] || shift
case $service in
postgres | seaweedfs | prefect | mlflow | worker) serve_"$service" "$@" ;;
deploy) deploy "$@" ;;
*)
    echo "troupe-service: write postgres, seaweedfs, prefect, mlflow, deploy or worker" >&2
    exit 64
    ;;
esac
