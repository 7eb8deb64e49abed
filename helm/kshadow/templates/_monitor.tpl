{{/*
How an endpoint of a ServiceMonitor or PodMonitor is scraped.
*/}}
{{- define "kshadow.endpoint" -}}
port: kshadow
path: /metrics
scheme: {{ include "kshadow.scheme" . }}
{{- with .Values.serviceMonitor }}
{{- range $field := list "interval" "scrapeTimeout" }}
{{- with index $.Values.serviceMonitor $field }}
{{ $field }}: {{ . }}
{{- end }}
{{- end }}
{{- range $field := list "tlsConfig" "basicAuth" "relabelings" "metricRelabelings" }}
{{- with index $.Values.serviceMonitor $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Fails for a name that there is not. Takes where, what, given and known.
*/}}
{{- define "kshadow.checkNames" -}}
{{- range .given -}}
{{- if not (has . $.known) -}}
{{- fail (printf "%s: there is no %s %q; there are %s" $.where $.what . (join ", " (uniq $.known))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Metadata of what Prometheus finds by labels. Takes root, it (with labels and namespace) and suffix.
*/}}
{{- define "kshadow.monitorMetadata" -}}
name: {{ include "kshadow.fullname" .root }}{{ .suffix }}
namespace: {{ .it.namespace | default .root.Release.Namespace }}
labels:
  {{- mergeOverwrite (include "kshadow.labels" .root | fromYaml) (deepCopy .it.labels) | toYaml | nindent 2 }}
{{- end -}}
