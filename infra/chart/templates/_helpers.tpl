{{- define "troupe.labels" -}}
app.kubernetes.io/name: troupe
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "troupe.selector" . }}
{{- end }}

{{- define "troupe.selector" -}}
troupe-release: {{ .root.Release.Name }}
troupe-part: {{ .part }}
{{- end }}

{{- define "troupe.postgresHost" -}}
{{ if .Values.postgres.enabled }}{{ .Release.Name }}-postgres{{ else }}{{ required "postgres.host: name a server, or set postgres.enabled" .Values.postgres.host }}{{ end }}
{{- end }}

{{- define "troupe.s3" -}}
{{ if .Values.store.seaweedfs.enabled }}http://{{ .Release.Name }}-s3:8333{{ else }}{{ required "store.endpoint: name an S3, or set store.seaweedfs.enabled" .Values.store.endpoint }}{{ end }}
{{- end }}

{{- define "troupe.prefectApi" -}}
{{ .Values.prefect.apiUrl | default (printf "http://%s-prefect:4200/api" .Release.Name) }}
{{- end }}

{{- define "troupe.mlflowUrl" -}}
{{ .Values.mlflow.url | default (printf "http://%s-mlflow:5000" .Release.Name) }}
{{- end }}

{{/* What a restricted pod says of itself, and of each container. */}}
{{- define "troupe.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "troupe.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "troupe.resources" -}}
requests: {cpu: {{ .cpu | quote }}, memory: {{ .memory }}}
limits: {memory: {{ .memory }}}
{{- end }}

{{- define "troupe.pull" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{/* Variables from the Secret of the services: a list of names. */}}
{{- define "troupe.secretEnv" -}}
{{- range .names }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $.root.Values.secrets.services }}, key: {{ . }}}}
{{- end }}
{{- end }}

{{- define "troupe.s3Env" -}}
- {name: AWS_ENDPOINT_URL_S3, value: {{ include "troupe.s3" . | quote }}}
- {name: MLFLOW_S3_ENDPOINT_URL, value: {{ include "troupe.s3" . | quote }}}
- {name: AWS_REGION, value: {{ .Values.store.region | quote }}}
- {name: AWS_DEFAULT_REGION, value: {{ .Values.store.region | quote }}}
- {name: AWS_EC2_METADATA_DISABLED, value: "true"}
{{ include "troupe.secretEnv" (dict "root" . "names" (list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY")) | trim }}
{{- end }}

{{/* What a process that executes stages needs: store and tracking, and for what no Prefect worker starts, Prefect. */}}
{{- define "troupe.storeEnv" -}}
- {name: PREFECT_LOGGING_EXTRA_LOGGERS, value: "components,tasks,flows"}
- {name: PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW, value: ignore}
- {name: MLFLOW_TRACKING_URI, value: {{ include "troupe.mlflowUrl" . | quote }}}
{{ include "troupe.secretEnv" (dict "root" . "names" (list "MLFLOW_TRACKING_USERNAME" "MLFLOW_TRACKING_PASSWORD")) | trim }}
{{ include "troupe.s3Env" . }}
{{- end }}

{{- define "troupe.runEnv" -}}
- {name: PREFECT_API_URL, value: {{ include "troupe.prefectApi" . | quote }}}
{{ include "troupe.secretEnv" (dict "root" . "names" (list "PREFECT_API_AUTH_STRING")) | trim }}
{{ include "troupe.storeEnv" . }}
{{- end }}

{{- define "troupe.postgresEnv" -}}
- {name: POSTGRES_HOST, value: {{ include "troupe.postgresHost" . | quote }}}
- {name: POSTGRES_PORT, value: {{ .Values.postgres.port | quote }}}
- {name: POSTGRES_USER, value: {{ .Values.postgres.user | quote }}}
{{ include "troupe.secretEnv" (dict "root" . "names" (list "POSTGRES_PASSWORD")) | trim }}
{{- end }}

{{/* Folders that a container with a read-only root writes to. */}}
{{- define "troupe.scratchMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: home, mountPath: /home/troupe}
{{- end }}

{{- define "troupe.scratchVolumes" -}}
- {name: tmp, emptyDir: {}}
- {name: home, emptyDir: {}}
{{- end }}
