{{/*
How an endpoint of a ServiceMonitor or PodMonitor is scraped.
*/}}
{{- define "kshadow.endpoint" -}}
port: kshadow
path: /metrics
# Of several Kafka clusters each series has its own in `cluster`: one that Prometheus gives its targets must not replace it.
honorLabels: true
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
name: {{ print (include "kshadow.monitorName" .) .suffix | quote }}
namespace: {{ .it.namespace | default .root.Release.Namespace | quote }}
labels:
  {{- mergeOverwrite (include "kshadow.labels" .root | fromYaml) (deepCopy (.it.labels | default dict)) | toYaml | nindent 2 }}
{{- end -}}

{{/*
The name of what Prometheus finds. Takes root and it (with namespace).
*/}}
{{- define "kshadow.monitorName" -}}
{{- $isElsewhere := ne (.it.namespace | default .root.Release.Namespace) .root.Release.Namespace -}}
{{- include ($isElsewhere | ternary "kshadow.nameElsewhere" "kshadow.fullname") .root -}}
{{- end -}}
