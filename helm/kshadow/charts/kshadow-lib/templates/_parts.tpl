{{/*
A container's securityContext that passes the restricted Pod Security standard.
*/}}
{{- define "kshadow-lib.securityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/*
Environment variables from Secrets. Takes a map: variable → {name, key}.
*/}}
{{- define "kshadow-lib.secretEnv" -}}
{{- range $variable, $from := . -}}
- name: {{ $variable | quote }}
  valueFrom:
    secretKeyRef:
      name: {{ required (printf "secretEnv.%s.name is needed: the Secret that holds it" $variable) $from.name | quote }}
      key: {{ required (printf "secretEnv.%s.key is needed: the key in that Secret" $variable) $from.key | quote }}
{{ end -}}
{{- end -}}

{{/*
A scalar as text: YAML made numbers floating, and Go would print 6000000 as 6e+06.
*/}}
{{- define "kshadow-lib.text" -}}
{{- if and (kindIs "float64" .) (eq (float64 (int64 .)) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{/*
An argument as Kubernetes must have it to leave it alone: there $(X) is a variable's value, and $$ is one $.
*/}}
{{- define "kshadow-lib.unexpanded" -}}
{{- if or (contains "$(" .) (contains "$$" .) }}{{ replace "$" "$$" . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{/*
The token of the pod's service account, for the container that mounts it alone: where a pod mounts its token by itself, each
of its containers has it.
*/}}
{{- define "kshadow-lib.kubernetesVolume" -}}
- name: kshadow-kubernetes
  projected:
    sources:
      - serviceAccountToken:
          path: token
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
      - downwardAPI:
          items:
            - path: namespace
              fieldRef:
                fieldPath: metadata.namespace
{{- end -}}

{{- define "kshadow-lib.kubernetesVolumeMount" -}}
- name: kshadow-kubernetes
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end -}}
