{{/*
The pod of both modes: the template of a Deployment or StatefulSet.
*/}}
{{- define "kshadow.pod" -}}
metadata:
  labels:
    {{- mergeOverwrite (deepCopy (.Values.podLabels | default dict)) (omit (include "kshadow.labels" . | fromYaml) "helm.sh/chart") | toYaml | nindent 4 }}
  {{- $annotations := deepCopy (.Values.podAnnotations | default dict) }}
  {{- if .Values.rolloutOnConfigChange }}
  {{- $_ := set $annotations "checksum/config" (include "kshadow.config" . | sha256sum) }}
  {{- end }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "kshadow.serviceAccountName" . | quote }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    {{- include "kshadow.container" . | nindent 4 }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "kshadow.volumes" . | nindent 4 }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- $selector := dict "labelSelector" (dict "matchLabels" (include "kshadow.selectorLabels" $ | fromYaml)) }}
    {{- range . }}
    - {{ merge (deepCopy .) $selector | toYaml | nindent 6 | trim }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "kshadow.container" -}}
- name: kshadow
  image: {{ include "kshadow.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - run
    {{- if eq .Values.mode "statefulset" }}
    # The pod's name ends in its number.
    - --shard=auto/{{ int .Values.shards }}
    {{- end }}
    - --listen=[::]:{{ include "kshadow.port" . }}
  env:
    - name: KSHADOW_CONFIG
      value: /etc/kshadow/config/config.yaml
    # For kshadow doctor by kubectl exec: the agent, which is told by its argument, has its port already.
    - name: KSHADOW_LISTEN
      value: 127.0.0.1:0
    {{- with .Values.kafka.secretEnv }}
    {{- include "kshadow-lib.secretEnv" . | trim | nindent 4 }}
    {{- end }}
    {{- with .Values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: kshadow
      containerPort: {{ include "kshadow.port" . }}
      protocol: TCP
  {{- include "kshadow.probes" . | trim | nindent 2 }}
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    - name: config
      mountPath: /etc/kshadow/config
      readOnly: true
    - name: state
      mountPath: /var/lib/kshadow
    # For what doctor tries; the rest of the file system is read-only.
    - name: tmp
      mountPath: /tmp
    {{- if .Values.kafka.certificatesSecret }}
    - name: kshadow-certificates
      mountPath: /etc/kshadow/certificates
      readOnly: true
    {{- end }}
    {{- if .Values.webConfig.secretName }}
    - name: web
      mountPath: /etc/kshadow/web
      readOnly: true
    {{- end }}
    {{- if .Values.kubernetes.enabled }}
    {{- include "kshadow-lib.kubernetesVolumeMount" . | nindent 4 }}
    {{- end }}
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/*
The probes, each where it is enabled.
*/}}
{{- define "kshadow.probes" -}}
{{- range $kind, $path := dict "startup" "/readyz" "readiness" "/readyz" "liveness" "/healthz" }}
{{- with index $.Values.probes $kind }}
{{- if .enabled }}
{{ $kind }}Probe:
  {{- if $.Values.webConfig.clientCertificates }}
  tcpSocket:
    port: kshadow
  {{- else }}
  httpGet:
    path: {{ $path }}
    port: kshadow
    scheme: {{ include "kshadow.scheme" $ | upper }}
  {{- end }}
  periodSeconds: {{ int .periodSeconds }}
  failureThreshold: {{ int .failureThreshold }}
  timeoutSeconds: {{ int .timeoutSeconds }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Volumes; the state of a statefulset comes from its volumeClaimTemplates.
*/}}
{{- define "kshadow.volumes" -}}
- name: config
  configMap:
    name: {{ include "kshadow.fullname" . | quote }}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- if eq (include "kshadow.persistence" .) "emptyDir" }}
- name: state
  emptyDir:
    sizeLimit: {{ .Values.persistence.size }}
{{- else if eq .Values.mode "deployment" }}
- name: state
  persistentVolumeClaim:
    claimName: {{ .Values.persistence.existingClaim | default (include "kshadow.fullname" .) | quote }}
{{- end }}
{{- with .Values.kafka.certificatesSecret }}
- name: kshadow-certificates
  secret:
    secretName: {{ . | quote }}
    defaultMode: 288 # 0440
{{- end }}
{{- with .Values.webConfig.secretName }}
- name: web
  secret:
    secretName: {{ . | quote }}
    defaultMode: 288 # 0440
{{- end }}
{{- if .Values.kubernetes.enabled }}
{{ include "kshadow-lib.kubernetesVolume" . }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
The spec of a claim for the state.
*/}}
{{- define "kshadow.claim" -}}
accessModes:
  {{- toYaml .Values.persistence.accessModes | nindent 2 }}
{{- with .Values.persistence.storageClass }}
storageClassName: {{ . | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .Values.persistence.size }}
{{- end -}}
