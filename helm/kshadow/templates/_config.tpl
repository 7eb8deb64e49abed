{{/*
The agent's configuration file. What stands at the top goes to every command, so that `kubectl exec … kshadow doctor`
asks the same brokers for the same rights; under `run` stands what other commands do not have or mean otherwise.
*/}}
{{- define "kshadow.config" -}}
{{- $top := dict "state-dir" "/var/lib/kshadow" -}}
{{- with .Values.kafka.bootstrapServers }}{{ $_ := set $top "bootstrap-server" . }}{{ end -}}
{{- with .Values.kafka.properties }}{{ $_ := set $top "property" . }}{{ end -}}
{{- if .Values.kubernetes.enabled -}}
{{- $_ := set $top "kubernetes" true -}}
{{- with .Values.kubernetes.namespace }}{{ $_ := set $top "kubernetes-namespace" . }}{{ end -}}
{{- end -}}
{{- $run := dict -}}
{{- with .Values.webConfig }}{{ if .secretName }}{{ $_ := set $run "web-config" (printf "/etc/kshadow/web/%s" .key) }}{{ end }}{{ end -}}
{{- $shared := list "command-config" "source" "admin" "lag" "history-topic" "history-topic-create" "snapshots" "share-group" "group-partitioner" "kubernetes-context" "clusters" "broker-config" -}}
{{- range $name, $value := .Values.config -}}
{{- $_ := set (ternary $top $run (has $name $shared)) $name $value -}}
{{- end -}}
{{- with $run }}{{ $_ := set $top "run" . }}{{ end -}}
{{- $text := toYaml $top -}}
{{- /* Helm makes nothing of what it cannot write, and says nothing. */ -}}
{{- if not $text -}}
{{- fail "config and kafka.properties: expected text that YAML can hold, there is a control character in it" -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/*
Fails where values say what cannot be. Each message says what was expected and what to do.
*/}}
{{- define "kshadow.check" -}}
{{- $config := .Values.config | default dict -}}
{{- /* The strictest of them is a Service's. */ -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" (include "kshadow.fullname" .)) -}}
{{- fail (printf "objects would be called %q: expected a letter first, then letters, digits and - (no dots), as a Service's name must be; set fullnameOverride" (include "kshadow.fullname" .)) -}}
{{- end -}}
{{- if not (or .Values.kafka.bootstrapServers $config.clusters) -}}
{{- fail "kafka.bootstrapServers is needed: the Kafka brokers to start from, such as --set kafka.bootstrapServers=kafka:9092 (or config.clusters with each cluster's bootstrap-server)" -}}
{{- end -}}
{{- if and .Values.kafka.bootstrapServers $config.clusters -}}
{{- fail "kafka.bootstrapServers and config.clusters are both given: write each cluster's bootstrap-server into config.clusters, and leave kafka.bootstrapServers empty" -}}
{{- end -}}
{{- with .Values.kafka.bootstrapServers }}{{ include "kshadow.checkServers" (dict "where" "kafka.bootstrapServers" "servers" .) }}{{ end -}}
{{- range $option, $value := include "kshadow.ownOptions" . | fromYaml -}}
{{- if hasKey $config $option -}}
{{- fail (printf "config.%s: the chart sets that option; say it by the value %s" $option $value) -}}
{{- end -}}
{{- end -}}
{{- include "kshadow-lib.checkProperties" (dict "where" "kafka.properties" "properties" .Values.kafka.properties) -}}
{{- range $name, $cluster := $config.clusters -}}
{{- if not (index $cluster "bootstrap-server") -}}
{{- fail (printf "config.clusters.%s: bootstrap-server is needed: that cluster's brokers, such as kafka-%s:9092" $name $name) -}}
{{- end -}}
{{- /* A variable, or a host alone, is the agent's to read: the policy needs the ports, from there or from kafkaPorts. */ -}}
{{- if and $.Values.networkPolicy.enabled (not $.Values.networkPolicy.kafkaPorts) -}}
{{- include "kshadow.checkServers" (dict "where" (printf "config.clusters.%s.bootstrap-server" $name) "servers" (index $cluster "bootstrap-server")) -}}
{{- end -}}
{{- $names := keys ($.Values.kafka.secretEnv | default dict) -}}
{{- range $.Values.extraEnv }}{{ $names = append $names .name }}{{ end -}}
{{- if and $cluster.kubernetes (not $.Values.kubernetes.enabled) (not (has "KUBECONFIG" $names)) -}}
{{- fail (printf "config.clusters.%s.kubernetes goes with kubernetes.enabled, which mounts the token that it takes, and turns it on for each cluster without kubernetes: false (or with a KUBECONFIG in extraEnv)" $name) -}}
{{- end -}}
{{- include "kshadow-lib.checkProperties" (dict "where" (printf "config.clusters.%s.property" $name) "properties" ($cluster.property | default dict)) -}}
{{- end -}}
{{- include "kshadow.checkEnv" (dict "where" "kafka.secretEnv and extraEnv" "own" (list "KSHADOW_CONFIG" "KSHADOW_LISTEN") "secretEnv" .Values.kafka.secretEnv "extraEnv" .Values.extraEnv) -}}
{{- include "kshadow.checkEnv" (dict "where" "spark.secretEnv and spark.extraEnv" "own" (list "HOME" "KSHADOW_CACHE") "secretEnv" .Values.spark.secretEnv "extraEnv" .Values.spark.extraEnv) -}}
{{- include "kshadow.checkMode" . -}}
{{- if and .Values.podMonitor.enabled (eq (toString .Values.serviceMonitor.enabled) "true") -}}
{{- fail "serviceMonitor.enabled and podMonitor.enabled are both true: everything would be scraped twice; set one of them to false" -}}
{{- end -}}
{{- if and (not .Values.webConfig.secretName) (or .Values.webConfig.tls .Values.webConfig.clientCertificates) -}}
{{- fail "webConfig.tls and webConfig.clientCertificates tell of a web-config file, and there is none: webConfig.secretName is needed, the Secret that holds it" -}}
{{- end -}}
{{- if and .Values.webConfig.clientCertificates (not .Values.webConfig.tls) -}}
{{- fail "webConfig.clientCertificates goes with webConfig.tls: there are no client certificates without TLS" -}}
{{- end -}}
{{- end -}}

{{/*
Fails for what are no brokers with their ports. Takes where and servers.
*/}}
{{- define "kshadow.checkServers" -}}
{{- range splitList "," .servers -}}
{{- $port := splitList ":" (trim .) | last | int -}}
{{- if not (and (regexMatch "^\\s*(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+):[0-9]{1,5}\\s*$" .) (ge $port 1) (le $port 65535)) -}}
{{- fail (printf "%s: expected host:port, with commas between, got %q" $.where .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
A variable that stands twice among a container's is refused by a server-side apply, and the last one counts elsewhere.
*/}}
{{- define "kshadow.checkEnv" -}}
{{- $names := concat .own (keys (.secretEnv | default dict)) -}}
{{- range .extraEnv }}{{ $names = append $names .name }}{{ end -}}
{{- $seen := dict -}}
{{- range $names -}}
{{- if hasKey $seen . -}}
{{- fail (printf "%s: %s is given twice, or is one that the chart sets" $.where .) -}}
{{- end -}}
{{- $_ := set $seen . true -}}
{{- end -}}
{{- end -}}

{{/*
Options that the chart sets itself, with the values they come from.
*/}}
{{- define "kshadow.ownOptions" -}}
bootstrap-server: kafka.bootstrapServers
property: kafka.properties
shard: shards (with mode statefulset)
state-dir: persistence
listen: service.port
kubernetes: kubernetes.enabled
kubernetes-namespace: kubernetes.namespace
web-config: webConfig
{{- end -}}

{{- define "kshadow.checkMode" -}}
{{- if eq .Values.mode "deployment" -}}
{{- if gt (int .Values.shards) 1 -}}
{{- fail (printf "shards: %d goes with mode: statefulset; a deployment is one agent, which reads all partitions" (int .Values.shards)) -}}
{{- end -}}
{{- else -}}
{{- $places := dict "config" (.Values.config | default dict) -}}
{{- range $name, $cluster := (.Values.config).clusters -}}
{{- $_ := set $places (printf "config.clusters.%s" $name) ($cluster | default dict) -}}
{{- end -}}
{{- range $where, $config := $places -}}
{{- range list "group" "partitions" "share-group" -}}
{{- if hasKey $config . -}}
{{- fail (printf "%s.%s goes with mode: deployment; in a statefulset each agent reads its shard of the partitions, and both cannot say what is read" $where .) -}}
{{- end -}}
{{- end -}}
{{- if eq (toString $config.source) "admin" -}}
{{- fail (printf "%s.source: admin goes with mode: deployment; groups asked of the Admin API have no partitions to share out" $where) -}}
{{- end -}}
{{- end -}}
{{- if .Values.persistence.existingClaim -}}
{{- fail "persistence.existingClaim goes with mode: deployment; each shard of a statefulset has a claim of its own" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.persistence.existingClaim (eq .Values.persistence.type "emptyDir") -}}
{{- fail "persistence.existingClaim goes with persistence.type: claim (or auto), and emptyDir was given" -}}
{{- end -}}
{{- end -}}
