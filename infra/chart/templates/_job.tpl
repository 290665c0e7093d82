{{- define "troupe.workerContainer" -}}
image: {{ .Values.image.worker | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - {name: PREFECT_API_URL, value: {{ include "troupe.prefectApi" . | quote }}}
  {{- include "troupe.secretEnv" (dict "root" . "names" (list "PREFECT_API_AUTH_STRING")) | trim | nindent 2 }}
  # Jobs read it from the Secret too, instead of holding it in their manifest.
  - {name: PREFECT_INTEGRATIONS_KUBERNETES_WORKER_API_AUTH_STRING_SECRET_NAME, value: {{ .Values.secrets.services | quote }}}
  - {name: PREFECT_INTEGRATIONS_KUBERNETES_WORKER_API_AUTH_STRING_SECRET_KEY, value: PREFECT_API_AUTH_STRING}
  - {name: PREFECT_INTEGRATIONS_KUBERNETES_OBSERVER_NAMESPACES, value: {{ .Release.Namespace | quote }}}
  - {name: PREFECT_WORKER_WEBSERVER_HOST, value: 0.0.0.0}
  - {name: PREFECT_WORKER_WEBSERVER_PORT, value: "8080"}
  - name: WORKER_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
securityContext: {{- include "troupe.containerSecurity" . | nindent 2 }}
resources: {{- include "troupe.resources" .Values.worker.resources | nindent 2 }}
volumeMounts:
  {{- include "troupe.scratchMounts" . | nindent 2 }}
  - {name: job, mountPath: /etc/troupe, readOnly: true}
{{- end }}

{{/* The base job template of the work pool: Prefect fills in what stands in double braces, from the defaults below, a deployment's
job variables and the flow run. */}}
{{- define "troupe.jobTemplate" -}}
variables:
  type: object
  properties:
    name: {title: Name, type: string, default: null, description: The beginning of the job's name.}
    command: {title: Command, type: string, default: null, description: The command that executes the flow run.}
    env: {title: Environment, type: object, default: {}, additionalProperties: {type: string}, description: Further variables of the flow run.}
    labels: {title: Labels, type: object, default: {}, additionalProperties: {type: string}, description: Labels of the job.}
    namespace: {title: Namespace, type: string, default: {{ .Release.Namespace | quote }}, description: The namespace of the job.}
    image: {title: Image, type: string, default: {{ .Values.image.worker | quote }}, description: The image of the driver of a run.}
    cpu: {title: CPU, type: string, default: {{ .Values.worker.job.cpu | quote }}, description: What the driver asks for.}
    memory: {title: Memory, type: string, default: {{ .Values.worker.job.memory | quote }}, description: What the driver gets.}
    gpus: {title: GPUs, type: integer, default: null, description: "GPUs of the driver; with the image of a trainer."}
    finished_job_ttl: {title: Seconds kept, type: integer, default: {{ .Values.worker.job.ttlSeconds }}, description: How long a finished job is kept.}
    job_watch_timeout_seconds: {title: Watch timeout, type: integer, default: null, description: "Seconds to wait for an event of the job; null: no limit."}
    pod_watch_timeout_seconds: {title: Start timeout, type: integer, default: 600, description: "Seconds in which the pod must have started, its image pulled."}
    stream_output: {title: Stream output, type: boolean, default: true, description: Whether the worker repeats what the job prints.}
job_configuration:
  name: {{ "'{{ name }}'" }}
  command: {{ "'{{ command }}'" }}
  env: {{ "'{{ env }}'" }}
  labels: {{ "'{{ labels }}'" }}
  namespace: {{ "'{{ namespace }}'" }}
  job_watch_timeout_seconds: {{ "'{{ job_watch_timeout_seconds }}'" }}
  pod_watch_timeout_seconds: {{ "'{{ pod_watch_timeout_seconds }}'" }}
  stream_output: {{ "'{{ stream_output }}'" }}
  job_manifest: {{- include "troupe.jobManifest" . | nindent 4 }}
{{- end }}

{{- define "troupe.jobManifest" -}}
apiVersion: batch/v1
kind: Job
metadata:
  labels: {{ "'{{ labels }}'" }}
  namespace: {{ "'{{ namespace }}'" }}
  generateName: {{ "'{{ name }}-'" }}
spec:
  # A run that crashed is started again by Prefect, which counts its starts; Kubernetes does not start it a second time beside that.
  backoffLimit: 0
  ttlSecondsAfterFinished: {{ "'{{ finished_job_ttl }}'" }}
  template:
    metadata:
      labels: {{- include "troupe.selector" (dict "root" . "part" "run") | nindent 8 }}
    spec:
      restartPolicy: Never
      # No fields of a pod, and ignored; Prefect refuses a template without them.
      parallelism: 1
      completions: 1
      automountServiceAccountToken: false
      enableServiceLinks: false
      # Between the signal and the kill the driver ends its workers and tells Prefect.
      terminationGracePeriodSeconds: 60
      securityContext: {{- include "troupe.podSecurity" . | nindent 8 }}
      {{- include "troupe.pull" . | indent 6 }}
      containers:
        - name: prefect-job
          image: {{ "'{{ image }}'" }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args: {{ "'{{ command }}'" }}
          # Prefect puts its own settings and a deployment's `env` in front of these.
          env: {{- include "troupe.storeEnv" . | nindent 12 }}
          securityContext: {{- include "troupe.containerSecurity" . | nindent 12 }}
          resources:
            requests: {cpu: {{ "'{{ cpu }}'" }}, memory: {{ "'{{ memory }}'" }}}
            limits: {memory: {{ "'{{ memory }}'" }}, nvidia.com/gpu: {{ "'{{ gpus }}'" }}}
          volumeMounts:
            {{- include "troupe.scratchMounts" . | nindent 12 }}
            - {name: shm, mountPath: /dev/shm}
      volumes:
        - {name: tmp, emptyDir: {sizeLimit: {{ .Values.worker.job.scratch }}}}
        - {name: home, emptyDir: {sizeLimit: {{ .Values.worker.job.scratch }}}}
        - {name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
{{- end }}
