{{/* The name that all objects begin with. */}}
{{- define "penstock.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "penstock" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-penstock" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of a component: (dict "root" $ "component" NAME). */}}
{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Metadata of an object: (dict "root" $ "component" COMPONENT "name" NAME). */}}
{{- define "penstock.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "penstock.labels" . | nindent 2 }}
{{- end -}}

{{/* What a model or a version is called in a label, whose values have fewer characters and 63 of them at most. */}}
{{- define "penstock.label" -}}
{{- regexReplaceAll "[^A-Za-z0-9._-]" . "_" | trunc 63 | trimAll "._-" -}}
{{- end -}}

{{/* The name of a pool's workload and Service: (dict "root" $ "pool" POOL). Groups of pods get numbers behind it. */}}
{{- define "penstock.poolName" -}}
{{- $said := printf "%s-%s" .pool.model .pool.name -}}
{{- $plain := regexReplaceAll "[^a-z0-9]+" (lower $said) "-" | trimAll "-" -}}
{{- $name := printf "%s-%s" (include "penstock.fullname" .root) $plain -}}
{{- if gt (len $name) 50 -}}
{{- $name = printf "%s-%s" ($name | trunc 41 | trimSuffix "-") ($said | sha256sum | trunc 8) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "penstock.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "penstock.secret" -}}
{{- .Values.secrets.name | default (include "penstock.fullname" .) -}}
{{- end -}}

{{- define "penstock.replicaTlsSecret" -}}
{{- .Values.replicaTls.replicaSecret | default (printf "%s-replica-tls" (include "penstock.fullname" .)) -}}
{{- end -}}

{{- define "penstock.gatewayTlsSecret" -}}
{{- .Values.replicaTls.gatewaySecret | default (printf "%s-gateway-tls" (include "penstock.fullname" .)) -}}
{{- end -}}

{{- define "penstock.tlsSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "penstock.fullname" .)) -}}
{{- end -}}
