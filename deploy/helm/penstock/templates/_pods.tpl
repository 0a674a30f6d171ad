{{/* What all pods have. No user is named, so that any may be given; the image's is 10001. (dict "root" $ "placing" VALUES "account" NAME) */}}
{{- define "penstock.pod" -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: {{ .token | default false }}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- mergeOverwrite (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault")) (.securityContext | default dict) | toYaml | nindent 2 }}
{{- with .placing.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .placing.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .placing.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .placing.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "penstock.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where a pod runs and who it is, by the downward API. */}}
{{- define "penstock.whereabouts" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- end -}}

{{/* The environment of all that read the configuration. */}}
{{- define "penstock.env" -}}
{{- $secret := include "penstock.secret" . -}}
{{ include "penstock.whereabouts" . }}
# glibc and Python find a home here, whatever user the cluster has given.
- {name: HOME, value: /tmp}
- name: PENSTOCK_ADMIN_KEY
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ .Values.secrets.adminKey }}}}
- name: PENSTOCK_SCRAPE_KEY
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ .Values.secrets.scrapeKey }}}}
{{- if eq .Values.store.kind "valkey" }}
- name: PENSTOCK_STORE_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ .Values.secrets.storePassword }}}}
{{- else }}
- name: PENSTOCK_STORE_URL
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ .Values.secrets.storeUrl }}}}
{{- end }}
{{- range $name, $from := .Values.secrets.env }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $from.secret }}, key: {{ $from.key }}}}
{{- end }}
{{- end -}}

{{/* Volumes of all that read the configuration, without those for state. */}}
{{- define "penstock.volumes" -}}
- name: config
  configMap: {name: {{ include "penstock.fullname" . }}-config}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- end -}}

{{- define "penstock.mounts" -}}
- {name: config, mountPath: /etc/penstock, readOnly: true}
- {name: tmp, mountPath: /tmp}
- {name: state, mountPath: /var/lib/penstock}
{{- end -}}
