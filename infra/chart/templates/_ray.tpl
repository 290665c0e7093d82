{{/* A Ray cluster's spec, for the one that stays and for that of a RayJob. KubeRay adds `ray start --block`, its probes, and the
token of authOptions to each container, which works from version 1.6 of it on. */}}
{{- define "troupe.rayCluster" -}}
rayVersion: {{ .Values.ray.version | quote }}
authOptions: {mode: token, secretName: {{ .Values.secrets.ray }}}
headGroupSpec:
  # No work on the head: its loss is that of the cluster.
  rayStartParams: {num-cpus: "0", dashboard-host: 0.0.0.0}
  template:
    {{- include "troupe.rayPod" (dict "root" . "group" (merge (dict "name" "head" "image" "worker" "shm" "1Gi" "gpus" 0) .Values.ray.head)) | nindent 4 }}
workerGroupSpecs:
  {{- range .Values.ray.groups }}
  - groupName: {{ .name }}
    replicas: {{ .replicas }}
    minReplicas: {{ .replicas }}
    maxReplicas: {{ .replicas }}
    # A resource by the group's name, so that work can ask for this kind of node.
    rayStartParams: {resources: {{ printf "%q" (printf "%q" (dict .name 1000 | toJson)) }}}
    template:
      {{- include "troupe.rayPod" (dict "root" $ "group" .) | nindent 6 }}
  {{- end }}
{{- end }}

{{- define "troupe.rayPod" -}}
{{- $boxes := eq .group.image "boxes" }}
metadata:
  labels: {{- include "troupe.labels" (dict "root" .root "part" "ray") | nindent 4 }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 60
  {{- include "troupe.pull" .root | indent 2 }}
  {{- if $boxes }}
  nodeSelector: {{- toYaml .root.Values.boxes.nodeSelector | nindent 4 }}
  tolerations: {{- toYaml .root.Values.boxes.tolerations | nindent 4 }}
  {{- with .root.Values.boxes.runtimeClass }}
  runtimeClassName: {{ . }}
  {{- end }}
  # A user of this pod alone: what escapes from a box is nobody on its node.
  hostUsers: false
  {{- end }}
  securityContext: {{- include "troupe.podSecurity" .root | nindent 4 }}
  containers:
    - name: ray
      image: {{ index .root.Values.image .group.image | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      env:
        # Ray's workers would run at niceness 15.
        - {name: RAY_worker_niceness, value: "0"}
        - {name: RAY_raylet_start_wait_time_s, value: "120"}
        {{- include "troupe.runEnv" .root | nindent 8 }}
      {{- if eq .group.name "head" }}
      ports:
        - {name: gcs-server, containerPort: 6379}
        - {name: dashboard, containerPort: 8265}
      {{- end }}
      {{- if $boxes }}
      # Bubblewrap makes namespaces and mounts a /proc of its own in them; the filter of system calls and the masked /proc of a
      # container forbid both. Each box has a filter of its own.
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
        procMount: Unmasked
        seccompProfile: {type: Unconfined}
        appArmorProfile: {type: Unconfined}
      {{- else }}
      securityContext: {{- include "troupe.containerSecurity" .root | nindent 8 }}
      {{- end }}
      resources:
        requests: {cpu: {{ .group.cpu | quote }}, memory: {{ .group.memory }}}
        limits:
          memory: {{ .group.memory }}
          {{- if .group.gpus }}
          nvidia.com/gpu: {{ .group.gpus }}
          {{- end }}
      volumeMounts:
        {{- include "troupe.scratchMounts" .root | nindent 8 }}
        - {name: shm, mountPath: /dev/shm}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: {{ .group.scratch }}}}
    - {name: home, emptyDir: {sizeLimit: {{ .group.scratch }}}}
    # Of a pod it has 64 MiB, which is too little for Ray's store and for NCCL. It counts as memory of the pod.
    - {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ .group.shm }}}}
{{- end }}

{{- define "troupe.trainCommand" -}}
{{- $given := list "troupe" "train" .Values.train.preset "--run-id" (required "train.runId: name the run; the same name resumes it" .Values.train.runId) -}}
{{- $own := list "resources.runner=ray" "store.kind=s3" (printf "store.bucket=%s" .Values.store.bucket) -}}
{{- $words := $given -}}
{{- range concat $own .Values.train.overrides }}{{ $words = concat $words (list "--set" (. | squote)) }}{{ end -}}
{{ join " " $words }}
{{- end }}
