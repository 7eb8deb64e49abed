{{/*
The name of the application.
*/}}
{{- define "kshadow.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/*
The name of objects. 52 characters at most: a StatefulSet's revisions are its name and 11 more, in a label of 63.
*/}}
{{- define "kshadow.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "kshadow.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "kshadow.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
The name of objects that lie in no namespace, or in another one: releases of the same name have their own there as well.
Neither part has a dot, so that no two come to the same.
*/}}
{{- define "kshadow.nameElsewhere" -}}
{{- printf "%s.%s" .Release.Namespace (include "kshadow.fullname" .) -}}
{{- end -}}

{{/*
What never changes of the agents' labels.
*/}}
{{- define "kshadow.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kshadow.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: agent
{{- end -}}

{{/*
Labels of every object; what is given in commonLabels cannot change those that selectors look for.
*/}}
{{- define "kshadow.labels" -}}
{{- $own := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/version" (.Values.image.tag | default .Chart.AppVersion | trunc 63 | trimSuffix "-")
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/part-of" "kshadow" -}}
{{- $selector := include "kshadow.selectorLabels" . | fromYaml -}}
{{- mergeOverwrite $own (deepCopy (.Values.commonLabels | default dict)) $selector | toYaml -}}
{{- end -}}

{{/*
The image, by digest where there is one.
*/}}
{{- define "kshadow.image" -}}
{{- with .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- define "kshadow.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "kshadow.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/*
claim or emptyDir.
*/}}
{{- define "kshadow.persistence" -}}
{{- if eq .Values.persistence.type "auto" -}}
{{- if or (eq .Values.mode "statefulset") .Values.persistence.existingClaim }}claim{{ else }}emptyDir{{ end -}}
{{- else -}}
{{- .Values.persistence.type -}}
{{- end -}}
{{- end -}}

{{/*
"true" where something is to be there. Takes root, enabled (true, false or auto) and api, the resource that it needs.
*/}}
{{- define "kshadow.wanted" -}}
{{- if eq (toString .enabled) "auto" -}}
{{- if .root.Capabilities.APIVersions.Has .api }}true{{ end -}}
{{- else if .enabled }}true{{ end -}}
{{- end -}}

{{- define "kshadow.hasServiceMonitor" -}}
{{- if not (and .Values.podMonitor.enabled (eq (toString .Values.serviceMonitor.enabled) "auto")) -}}
{{- include "kshadow.wanted" (dict "root" . "enabled" .Values.serviceMonitor.enabled "api" "monitoring.coreos.com/v1/ServiceMonitor") -}}
{{- end -}}
{{- end -}}

{{- define "kshadow.hasRules" -}}
{{- include "kshadow.wanted" (dict "root" . "enabled" .Values.prometheusRule.enabled "api" "monitoring.coreos.com/v1/PrometheusRule") -}}
{{- end -}}

{{- define "kshadow.hasBudget" -}}
{{- if eq (toString .Values.podDisruptionBudget.enabled) "auto" -}}
{{- if gt (int .Values.shards) 1 }}true{{ end -}}
{{- else if .Values.podDisruptionBudget.enabled }}true{{ end -}}
{{- end -}}

{{/*
The agents' port. Below 1024 only root may listen with CRI-O, containerd before 2.0 and a host's network, and agents are not root.
*/}}
{{- define "kshadow.port" -}}
{{- $port := int .Values.service.port -}}
{{- ternary 9308 $port (lt $port 1024) -}}
{{- end -}}

{{/*
http or https.
*/}}
{{- define "kshadow.scheme" -}}
{{- if and .Values.webConfig.secretName .Values.webConfig.tls }}https{{ else }}http{{ end -}}
{{- end -}}

{{/*
The ports in all bootstrap servers, each once, as YAML.
*/}}
{{- define "kshadow.brokerPorts" -}}
{{- $servers := list .Values.kafka.bootstrapServers -}}
{{- range (.Values.config).clusters }}{{ $servers = append $servers (index . "bootstrap-server") }}{{ end -}}
{{- $ports := list -}}
{{- range $servers | compact | join "," | splitList "," -}}
{{- $ports = append $ports (trim . | splitList ":" | last | int) -}}
{{- end -}}
{{- $ports | uniq | toYaml -}}
{{- end -}}

{{/*
The ports of all OTLP receivers, each once, as YAML; null for one that a variable names, of which the chart knows nothing.
*/}}
{{- define "kshadow.otlpPorts" -}}
{{- $endpoints := list (.Values.config).otlp -}}
{{- range (.Values.config).clusters }}{{ $endpoints = append $endpoints (index . "otlp") }}{{ end -}}
{{- $ports := list -}}
{{- range $endpoints | compact -}}
{{- $place := regexFind "^[A-Za-z]+://[^/]*" (trim .) -}}
{{- $port := ternary 443 80 (hasPrefix "https:" (lower $place)) -}}
{{- with regexFind ":[0-9]+$" $place }}{{ $port = trimPrefix ":" . | int }}{{ end -}}
{{- $ports = append $ports (ternary $port nil (ne $place "")) -}}
{{- end -}}
{{- $ports | uniq | toYaml -}}
{{- end -}}
