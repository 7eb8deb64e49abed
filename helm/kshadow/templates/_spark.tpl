{{/*
The name of a Spark job. Takes root and name, the job's; 52 characters at most, which is what a CronJob's may have.
*/}}
{{- define "kshadow.sparkName" -}}
{{- $end := printf "-spark-%s" .name -}}
{{- include "kshadow.fullname" .root | trunc (sub 52 (len $end) | int) | trimSuffix "-" }}{{ $end -}}
{{- end -}}

{{/*
Labels of Spark's objects: those of the chart, but not those by which Service and NetworkPolicy know the agents.
*/}}
{{- define "kshadow.sparkLabels" -}}
{{- $own := dict "app.kubernetes.io/component" "spark" "kshadow/job" .name -}}
{{- mergeOverwrite (include "kshadow.labels" .root | fromYaml) $own | toYaml -}}
{{- end -}}

{{/*
Fails where a job cannot be. Takes root, name, job and where (cronJobs or applications).
*/}}
{{- define "kshadow.checkSpark" -}}
{{- if not .root.Values.spark.image -}}
{{- fail (printf "spark.image is needed for spark.%s.%s: an image with kshadow[spark] and Java; the agent's has neither Spark nor Java" .where .name) -}}
{{- end -}}
{{- with .job.kafka -}}
{{- range $property, $value := .properties -}}
{{- if regexMatch "(password|passphrase|secret|\\.key\\.pem|jaas\\.config)$" $property -}}
{{- fail (printf "spark.applications.%s: %s is a secret, and an application's arguments can be read by everybody: leave it out, and give it by spark.secretEnv.KSHADOW_SPARK_SECRETS" $.name $property) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The arguments of `kshadow spark`, one item an option. Takes root and job.
*/}}
{{- define "kshadow.sparkArgs" -}}
{{- $args := list "spark" .job.command -}}
{{- range $name, $value := merge (deepCopy .job.options) (dict "master" .root.Values.spark.master) -}}
{{- if kindIs "bool" $value -}}
{{- if $value }}{{ $args = append $args (printf "--%s" $name) }}{{ else if eq $name "check" }}{{ $args = append $args "--no-check" }}{{ end -}}
{{- else if kindIs "map" $value -}}
{{- range $key, $it := $value }}{{ $args = append $args (printf "--%s=%s=%s" $name $key (include "kshadow-lib.text" $it)) }}{{ end -}}
{{- else if kindIs "slice" $value -}}
{{- range $value }}{{ $args = append $args (printf "--%s=%s" $name (include "kshadow-lib.text" .)) }}{{ end -}}
{{- else -}}
{{- $args = append $args (printf "--%s=%s" $name (include "kshadow-lib.text" $value)) -}}
{{- end -}}
{{- end -}}
{{- range $index, $arg := $args }}
{{- if $index }}{{ "\n" }}{{ end -}}
- {{ include "kshadow-lib.unexpanded" $arg | quote }}
{{- end -}}
{{- end -}}

{{/*
What a job's container has in its environment. All that Spark, Java and kshadow write beside the tables goes to /tmp.
*/}}
{{- define "kshadow.sparkEnv" -}}
- name: HOME
  value: /tmp
- name: KSHADOW_CACHE
  value: /tmp/kshadow
{{- with .Values.spark.secretEnv }}
{{ include "kshadow-lib.secretEnv" . | trim }}
{{- end }}
{{- with .Values.spark.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kshadow.sparkVolumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.spark.scratch }}
{{- with .Values.spark.data.existingClaim }}
- name: data
  persistentVolumeClaim:
    claimName: {{ . | quote }}
{{- end }}
{{- with .Values.spark.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kshadow.sparkVolumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.spark.data.existingClaim }}
- name: data
  mountPath: {{ .Values.spark.data.mountPath }}
{{- end }}
{{- with .Values.spark.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}
