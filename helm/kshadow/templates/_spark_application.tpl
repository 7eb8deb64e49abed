{{/*
The spec of a SparkApplication. Takes root, name and app.
*/}}
{{- define "kshadow.sparkApplication" -}}
{{- $spark := .root.Values.spark -}}
{{- $app := .app -}}
type: Python
pythonVersion: "3"
mode: cluster
image: {{ $spark.image | quote }}
imagePullPolicy: {{ $spark.imagePullPolicy }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {{ .name | quote }}
  {{- end }}
{{- end }}
sparkVersion: {{ $spark.operator.sparkVersion | quote }}
mainApplicationFile: {{ $spark.operator.mainFile }}
arguments:
  - {{ $app.job | toJson | quote }}
deps:
  pyFiles:
    - {{ $spark.operator.codeFile }}
  {{- with $app.packages }}
  packages:
    {{- toYaml . | nindent 4 }}
  {{- end }}
sparkConf:
  # Ivy and all else that is written goes to /tmp.
  spark.jars.ivy: /tmp/ivy
  {{- range $key, $value := $app.sparkConf }}
  {{ $key | quote }}: {{ include "kshadow-lib.text" $value | quote }}
  {{- end }}
restartPolicy:
  {{- if eq $app.job.type "stream" }}
  # A stream goes on from its checkpoint.
  type: Always
  {{- else }}
  type: OnFailure
  onFailureRetries: 1
  onFailureRetryInterval: 60
  onSubmissionFailureRetries: 3
  onSubmissionFailureRetryInterval: 60
  {{- end }}
volumes:
  {{- include "kshadow.sparkVolumes" .root | nindent 2 }}
driver:
  {{- toYaml $spark.operator.driver | nindent 2 }}
  serviceAccount: {{ $spark.operator.serviceAccountName | quote }}
  {{- with $app.job.listen }}
  {{- $port := splitList ":" . | last | int }}
  # The metrics of a stream.
  ports:
    - name: metrics
      containerPort: {{ $port }}
      protocol: TCP
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ $port | quote }}
  {{- end }}
  {{- include "kshadow.sparkPod" . | nindent 2 }}
executor:
  {{- toYaml (mergeOverwrite (deepCopy $spark.operator.executor) ($app.executor | default dict)) | nindent 2 }}
  {{- include "kshadow.sparkPod" . | nindent 2 }}
{{- end -}}

{{/*
What driver and executors have alike.
*/}}
{{- define "kshadow.sparkPod" -}}
{{- $values := .root.Values -}}
labels:
  {{- omit (include "kshadow.sparkLabels" . | fromYaml) "helm.sh/chart" | toYaml | nindent 2 }}
env:
  {{- include "kshadow.sparkEnv" .root | nindent 2 }}
{{- with $values.podSecurityContext }}
podSecurityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  {{- include "kshadow.sparkVolumeMounts" .root | nindent 2 }}
{{- with $values.spark.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.spark.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
