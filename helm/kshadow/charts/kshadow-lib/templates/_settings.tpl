{{/*
What the container's values come to, as JSON (YAML of strange names is not read back): defaults below what was given.
Fails where they cannot be.
*/}}
{{- define "kshadow-lib.settings" -}}
{{- $it := mergeOverwrite (include "kshadow-lib.defaults" . | fromYaml) (deepCopy (.values | default dict)) -}}
{{- if eq (toString $it.native) "auto" -}}
{{- $_ := set $it "native" (semverCompare ">=1.29.0-0" .root.Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if $it.enabled -}}
{{- if not $it.bootstrapServers -}}
{{- fail "kshadow: bootstrapServers is needed: the Kafka brokers to start from, such as kafka:9092" -}}
{{- end -}}
{{- if and $it.brokerLog.path (not $it.brokerLog.volumeName) -}}
{{- fail "kshadow: brokerLog.volumeName is needed with brokerLog.path: the pod's volume that holds the broker's log" -}}
{{- end -}}
{{- if and $it.brokerLog.volumeName (not $it.brokerLog.path) -}}
{{- fail "kshadow: brokerLog.path is needed with brokerLog.volumeName: where that volume is mounted, with server.log in it" -}}
{{- end -}}
{{- include "kshadow-lib.checkProperties" (dict "where" "kshadow: properties" "properties" $it.properties) -}}
{{- end -}}
{{ toJson $it }}
{{- end -}}

{{/*
The defaults, those of this chart's values.yaml: a chart that includes these templates may have its values anywhere.
*/}}
{{- define "kshadow-lib.defaults" -}}
enabled: true
native: auto
image: kshadow:0.1.0
imagePullPolicy: ""
cluster: ""
bootstrapServers: ""
properties: {}
secretEnv: {}
certificatesSecret: ""
groups: []
groupPartitioner: auto
brokerLog:
  path: ""
  volumeName: ""
kubernetes: false
admin: false
lag: true
port: 9308
extraArgs: []
resources:
  requests:
    cpu: 10m
    memory: 64Mi
  limits:
    memory: 128Mi
securityContext: {}
{{- end -}}

{{/*
Fails where a property that is a secret stands in plain text. Takes where (for the message) and properties.
*/}}
{{- define "kshadow-lib.checkProperties" -}}
{{- $where := .where -}}
{{- range $name, $value := .properties -}}
{{- if and (regexMatch "(password|passphrase|secret|\\.key\\.pem|jaas\\.config)$" $name) (not (kindIs "map" $value)) -}}
{{- if not (regexMatch "^\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}$" (toString $value)) -}}
{{- fail (printf "%s: %s is a secret and stands there in plain text (not shown): write ${NAME} there, and let secretEnv say which Secret NAME comes from" $where $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
