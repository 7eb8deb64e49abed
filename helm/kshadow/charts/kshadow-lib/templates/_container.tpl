{{/*
The kshadow container beside a consumer or a broker: one item of a pod's list of containers or init containers.

  {{- include "kshadow-lib.container" (dict "root" $ "values" .Values.kshadow) | nindent 8 }}

Takes a dict: root (the including chart's $) and values (as in this chart's values.yaml; what is left out is as there).
It has no readiness probe, since a pod must not be out of service for its sidecar, and no startup probe, which would
hold up the other containers of a native one.
*/}}
{{- define "kshadow-lib.container" -}}
{{- $it := include "kshadow-lib.settings" . | fromJson -}}
- name: kshadow
  image: {{ $it.image | quote }}
  {{- with $it.imagePullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  {{- if $it.native }}
  restartPolicy: Always
  {{- end }}
  args:
    {{- include "kshadow-lib.args" $it | nindent 4 }}
  {{- if or $it.secretEnv $it.kubernetes }}
  env:
    {{- with $it.secretEnv }}
    {{- include "kshadow-lib.secretEnv" . | trim | nindent 4 }}
    {{- end }}
    {{- if $it.kubernetes }}
    - name: KSHADOW_KUBERNETES_NAMESPACE
      valueFrom:
        fieldRef:
          fieldPath: metadata.namespace
    {{- end }}
  {{- end }}
  ports:
    - name: kshadow
      containerPort: {{ $it.port | int }}
      protocol: TCP
  livenessProbe:
    httpGet:
      path: /healthz
      port: kshadow
    initialDelaySeconds: 30
    periodSeconds: 20
    timeoutSeconds: 5
    failureThreshold: 6
  resources:
    {{- toYaml $it.resources | nindent 4 }}
  securityContext:
    {{- mergeOverwrite (include "kshadow-lib.securityContext" . | fromYaml) ($it.securityContext | default dict) | toYaml | nindent 4 }}
  {{- if or $it.certificatesSecret $it.brokerLog.path $it.kubernetes }}
  volumeMounts:
    {{- with $it.brokerLog.path }}
    - name: {{ $it.brokerLog.volumeName | quote }}
      mountPath: {{ . | quote }}
      readOnly: true
    {{- end }}
    {{- if $it.certificatesSecret }}
    - name: kshadow-certificates
      mountPath: /etc/kshadow/certificates
      readOnly: true
    {{- end }}
    {{- if $it.kubernetes }}
    {{- include "kshadow-lib.kubernetesVolumeMount" . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{/*
The container where it is an init container (a native sidecar); nothing where it is not. Takes what
kshadow-lib.container takes.
*/}}
{{- define "kshadow-lib.initContainers" -}}
{{- $it := include "kshadow-lib.settings" . | fromJson -}}
{{- if and $it.enabled $it.native }}{{ include "kshadow-lib.container" . }}{{ end -}}
{{- end -}}

{{/*
The container where it is a plain one; nothing where it is not.
*/}}
{{- define "kshadow-lib.containers" -}}
{{- $it := include "kshadow-lib.settings" . | fromJson -}}
{{- if and $it.enabled (not $it.native) }}{{ include "kshadow-lib.container" . }}{{ end -}}
{{- end -}}

{{/*
The volumes that the container needs beside those of the pod; nothing where it needs none.
*/}}
{{- define "kshadow-lib.volumes" -}}
{{- $it := include "kshadow-lib.settings" . | fromJson -}}
{{- if and $it.enabled $it.certificatesSecret }}
- name: kshadow-certificates
  secret:
    secretName: {{ $it.certificatesSecret | quote }}
{{- end }}
{{- if and $it.enabled $it.kubernetes }}
{{ include "kshadow-lib.kubernetesVolume" . }}
{{- end }}
{{- end -}}

{{/*
The arguments, one item an option, in the order of `kshadow run --help`. Takes the settings.
*/}}
{{- define "kshadow-lib.args" -}}
{{- $args := list "run" -}}
{{- with .cluster }}{{ $args = append $args (printf "--cluster=%s" .) }}{{ end -}}
{{- $args = append $args (printf "--bootstrap-server=%s" .bootstrapServers) -}}
{{- range $name, $value := .properties -}}
{{- $args = append $args (printf "--property=%s=%s" $name (include "kshadow-lib.text" $value)) -}}
{{- end -}}
{{- range .groups }}{{ $args = append $args (printf "--group=%s" (include "kshadow-lib.text" .)) }}{{ end -}}
{{- if ne .groupPartitioner "auto" }}{{ $args = append $args (printf "--group-partitioner=%s" .groupPartitioner) }}{{ end -}}
{{- with .brokerLog.path }}{{ $args = append $args (printf "--broker-log=%s" .) }}{{ end -}}
{{- if .kubernetes }}{{ $args = append $args "--kubernetes" }}{{ end -}}
{{- if not .admin }}{{ $args = append $args "--no-admin" }}{{ end -}}
{{- if not .lag }}{{ $args = append $args "--no-lag" }}{{ end -}}
{{- /* It must not end where it cannot read: its pod would not be ready. */}}
{{- $args = append $args "--keep-trying" -}}
{{- $args = append $args (printf "--listen=[::]:%d" (int .port)) -}}
{{- range $index, $arg := $args }}
{{- if $index }}{{ "\n" }}{{ end -}}
- {{ include "kshadow-lib.unexpanded" $arg | quote }}
{{- end -}}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end -}}
{{- end -}}
