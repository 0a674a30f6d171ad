{{- define "penstock.warm" -}}
{{- range (include "penstock.pools" . | fromJson).pools -}}
{{- if gt (int .warm.replicas) 0 -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a pool that answer: of groups the leaders. (dict "root" "pool" "it") */}}
{{- define "penstock.poolSelector" -}}
{{ include "penstock.selector" .it }}
penstock/model: {{ include "penstock.label" .pool.model | quote }}
penstock/pool: {{ .pool.name | quote }}
{{- if eq .pool.kind "leaderworkerset" }}
leaderworkerset.sigs.k8s.io/worker-index: "0"
{{- end }}
{{- end -}}

{{/* Where a pool's pods may run, as JSON: (dict "pool" "spot" "priority"). */}}
{{- define "penstock.poolPlacing" -}}
{{- $pool := .pool -}}
{{- $tolerations := $pool.tolerations -}}
{{- if gt (int $pool.gpus) 0 -}}
{{- $tolerations = append $tolerations (dict "key" $pool.gpu.resource "operator" "Exists" "effect" "NoSchedule") -}}
{{- end -}}
{{- $nodes := $pool.nodeSelector -}}
{{- if .spot -}}
{{- $tolerations = concat $tolerations $pool.spot.tolerations -}}
{{- $nodes = mergeOverwrite (deepCopy $nodes) $pool.spot.nodeSelector -}}
{{- end -}}
{{- dict "tolerations" $tolerations "nodeSelector" $nodes "affinity" $pool.affinity "priorityClassName" (.priority | default $pool.priorityClassName) | toJson -}}
{{- end -}}

{{- define "penstock.poolResources" -}}
{{- $resources := deepCopy .resources -}}
{{- if gt (int .gpus) 0 -}}
{{- $gpus := dict .gpu.resource (int .gpus | toString) -}}
{{- $_ := set $resources "requests" (mergeOverwrite ($resources.requests | default dict) $gpus) -}}
{{- $_ := set $resources "limits" (mergeOverwrite ($resources.limits | default dict) $gpus) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* Whether a pool's replicas speak TLS by the chart's own arguments: (dict "root" "pool"). */}}
{{- define "penstock.speaksTls" -}}
{{- if and .root.Values.replicaTls.enabled (has .pool.engine (list "simulated" "tensorrt_llm")) -}}true{{- end -}}
{{- end -}}

{{/* Command and arguments of a replica. */}}
{{- define "penstock.replicaCommand" -}}
{{- $pool := .pool -}}
{{- if has $pool.engine (list "simulated" "tensorrt_llm") -}}
{{- $args := list "replica" "--engine" $pool.engine "--model" $pool.model "--listen" (printf "0.0.0.0:%d" (int $pool.port)) "--tp" (int $pool.shape.tp | toString) "--ep" (int $pool.shape.ep | toString) "--pp" (int $pool.shape.pp | toString) "--role" $pool.role "--drain-seconds" (int $pool.drainSeconds | toString) -}}
{{- if $pool.version -}}{{- $args = concat $args (list "--model-version" $pool.version) -}}{{- end -}}
{{- if $pool.metricsPort -}}{{- $args = concat $args (list "--metrics" (printf "0.0.0.0:%d" (int $pool.metricsPort))) -}}{{- end -}}
{{- if .root.Values.replicaTls.enabled -}}
{{- $args = concat $args (list "--tls-certificate" "/etc/penstock-tls/tls.crt" "--tls-key" "/etc/penstock-tls/tls.key" "--tls-client-ca" "/etc/penstock-tls/ca.crt") -}}
{{- end -}}
{{- range $model := .root.Values.config.models -}}
{{- if and (eq $model.name $pool.model) (eq $pool.engine "simulated") $model.tokenizer -}}
{{- if not (contains "/" $model.tokenizer) -}}{{- $args = concat $args (list "--tokenizer" $model.tokenizer) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $args = concat $args $pool.args -}}
{{- if $pool.command }}
command:
  {{- toYaml (append $pool.command "penstock") | nindent 2 }}
{{- end }}
args:
  {{- toYaml $args | nindent 2 }}
{{- else }}
{{- with $pool.command }}
command:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pool.args }}
args:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* A probe of a replica. */}}
{{- define "penstock.replicaProbe" -}}
{{- if .healthPath -}}
httpGet: {path: {{ .healthPath }}, port: replica}
{{- else -}}
tcpSocket: {port: replica}
{{- end -}}
{{- end -}}

{{- define "penstock.replicaMounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .sharedMemory }}
- {name: shm, mountPath: /dev/shm}
{{- end }}
{{- if .modelVolume.source }}
- {name: model, mountPath: {{ .modelVolume.mountPath }}, readOnly: true}
{{- end }}
{{- with .volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The template of a replica's pod: (dict "root" "pool" "it" "spot" "worker"). `worker`: one beside the leader. */}}
{{- define "penstock.replicaPod" -}}
{{- $pool := .pool -}}
metadata:
  labels:
    {{- include "penstock.labels" .it | nindent 4 }}
    {{- include "penstock.poolLabels" (dict "root" .root "pool" $pool) | nindent 4 }}
    penstock/capacity: {{ ternary "spot" "on-demand" .spot }}
  {{- with $pool.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "penstock.pod" (dict "root" .root "placing" (include "penstock.poolPlacing" (dict "pool" $pool "spot" .spot) | fromJson) "account" (printf "%s-replica" (include "penstock.fullname" .root)) "securityContext" $pool.podSecurityContext) | nindent 2 }}
  terminationGracePeriodSeconds: {{ add $pool.drainSeconds 15 }}
  {{- with $pool.modelVolume.preload }}
  {{- if .image }}
  initContainers:
    - name: preload
      image: {{ .image }}
      {{- with .command }}
      command:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .args }}
      args:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "penstock.containerSecurity" $ | nindent 8 }}
      {{- with .env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: model, mountPath: {{ $pool.modelVolume.mountPath }}}
  {{- end }}
  {{- end }}
  containers:
    - name: {{ ternary "worker" "replica" .worker }}
      image: {{ $pool.image | default (include "penstock.image" .root) }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      {{- if .worker }}
      command:
        {{- toYaml $pool.workers.command | nindent 8 }}
      {{- with $pool.workers.args }}
      args:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- else }}
      {{- include "penstock.replicaCommand" . | trim | nindent 6 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: {{ $pool.readOnlyRootFilesystem }}
        capabilities: {drop: [ALL]}
      env:
        {{- include "penstock.whereabouts" . | nindent 8 }}
        - {name: HOME, value: /tmp}
        {{- with $pool.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if not .worker }}
      ports:
        - {name: replica, containerPort: {{ $pool.port }}}
        {{- if $pool.metricsPort }}
        - {name: metrics, containerPort: {{ $pool.metricsPort }}}
        {{- end }}
      # The port opens when the engine is loaded. A replica that hangs is found by the gateways' probes of its engine.
      startupProbe:
        {{- include "penstock.replicaProbe" $pool | nindent 8 }}
        periodSeconds: 1
        timeoutSeconds: 3
        failureThreshold: {{ $pool.startupSeconds }}
      readinessProbe:
        {{- include "penstock.replicaProbe" $pool | nindent 8 }}
        periodSeconds: 2
        timeoutSeconds: 3
        failureThreshold: 2
      {{- end }}
      resources:
        {{- include "penstock.poolResources" $pool | nindent 8 }}
      volumeMounts:
        {{- include "penstock.replicaMounts" $pool | nindent 8 }}
        {{- if include "penstock.speaksTls" . }}
        - {name: tls, mountPath: /etc/penstock-tls, readOnly: true}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if $pool.sharedMemory }}
    - name: shm
      emptyDir: {medium: Memory, sizeLimit: {{ $pool.sharedMemory }}}
    {{- end }}
    {{- if include "penstock.speaksTls" . }}
    - name: tls
      secret: {secretName: {{ include "penstock.replicaTlsSecret" .root }}}
    {{- end }}
    {{- with $pool.modelVolume.source }}
    - name: model
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $pool.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Deployment or LeaderWorkerSet of a pool: (dict "root" "pool" "it" "spot"). */}}
{{- define "penstock.workload" -}}
{{- $pool := .pool -}}
{{- $name := printf "%s%s" $pool.workloadName (ternary "-spot" "" .spot) -}}
{{- $replicas := ternary 0 (int $pool.replicas) .spot -}}
{{- $pod := dict "root" .root "pool" $pool "it" .it "spot" .spot "worker" false -}}
{{- if eq $pool.kind "leaderworkerset" }}
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
{{- else }}
apiVersion: apps/v1
kind: Deployment
{{- end }}
metadata:
  {{- include "penstock.metadata" (dict "root" .root "component" "replica" "name" $name) | nindent 2 }}
    {{- include "penstock.poolLabels" (dict "root" .root "pool" $pool) | nindent 4 }}
spec:
  {{- $now := "" }}
  {{- if ne $pool.scaling.by "none" }}
  {{- $now = include "penstock.replicasNow" (dict "root" .root "kind" $pool.kind "name" $name) }}
  {{- end }}
  replicas: {{ $now | default $replicas }}
  {{- if eq $pool.kind "leaderworkerset" }}
  startupPolicy: LeaderCreated
  rolloutStrategy:
    type: RollingUpdate
    rollingUpdateConfiguration: {maxUnavailable: 1, maxSurge: 0}
  leaderWorkerTemplate:
    size: {{ $pool.nodes }}
    # A group computes together: without one pod of it the others are of no use.
    restartPolicy: RecreateGroupOnPodRestart
    leaderTemplate:
      {{- include "penstock.replicaPod" $pod | nindent 6 }}
    workerTemplate:
      {{- include "penstock.replicaPod" (dict "root" .root "pool" $pool "it" .it "spot" .spot "worker" true) | nindent 6 }}
  {{- else }}
  revisionHistoryLimit: 5
  strategy:
    type: RollingUpdate
    # GPUs for one more are seldom there.
    rollingUpdate: {maxUnavailable: 1, maxSurge: 0}
  selector:
    matchLabels:
      {{- include "penstock.selector" .it | nindent 6 }}
      penstock/model: {{ include "penstock.label" $pool.model | quote }}
      penstock/pool: {{ $pool.name | quote }}
      penstock/capacity: {{ ternary "spot" "on-demand" .spot }}
  template:
    {{- include "penstock.replicaPod" $pod | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Replicas of a workload that something scales, as the cluster has them: an upgrade of the chart must not set them back. */}}
{{- define "penstock.replicasNow" -}}
{{- $version := ternary "leaderworkerset.x-k8s.io/v1" "apps/v1" (eq .kind "leaderworkerset") -}}
{{- $kind := ternary "LeaderWorkerSet" "Deployment" (eq .kind "leaderworkerset") -}}
{{- $found := lookup $version $kind .root.Release.Namespace .name -}}
{{- if $found -}}{{- $found.spec.replicas -}}{{- end -}}
{{- end -}}
