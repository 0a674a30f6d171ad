{{/* The gateway's configuration, as JSON, which is YAML too. */}}
{{- define "penstock.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $set := dict "listen.host" "nothing: pods listen on every address" "listen.port" "gateway.service.port" "listen.workers" "gateway.workers" "listen.tls" "tls" "store.url" "store.kind" "store.password" "secrets.storePassword" -}}
{{- range $path, $instead := $set -}}
{{- $parts := splitList "." $path -}}
{{- $section := get $config (first $parts) | default dict -}}
{{- if and (kindIs "map" $section) (hasKey $section (last $parts)) -}}{{- fail (printf "config.%s: the chart sets it; its value is %s" $path $instead) -}}{{- end -}}
{{- end -}}
{{- range $key := list "state" "admin" "controller" -}}
{{- if hasKey $config $key -}}{{- fail (printf "config.%s: the chart sets it" $key) -}}{{- end -}}
{{- end -}}
{{- $listen := dict "host" "0.0.0.0" "port" 8080 "workers" .Values.gateway.workers -}}
{{- if .Values.tls.enabled -}}
{{- $_ := set $listen "tls" (dict "certificate" "/etc/penstock-tls/tls.crt" "key" "/etc/penstock-tls/tls.key") -}}
{{- end -}}
{{- $_ := set $config "listen" (mergeOverwrite ($config.listen | default dict) $listen) -}}
{{- $store := dict "url" (dict "env" "PENSTOCK_STORE_URL") -}}
{{- if eq .Values.store.kind "valkey" -}}
{{- $store = dict "url" (printf "redis://%s-store.%s.svc:6379/0" (include "penstock.fullname" .) .Release.Namespace) "password" (dict "env" "PENSTOCK_STORE_PASSWORD") -}}
{{- end -}}
{{- $_ := set $config "store" (mergeOverwrite ($config.store | default dict) $store) -}}
{{- $_ := set $config "state" "/var/lib/penstock" -}}
{{- $_ := set $config "admin" (dict "host" "0.0.0.0" "port" 8081 "scrape_key" (dict "env" "PENSTOCK_SCRAPE_KEY")) -}}
{{- $_ := set $config "controller" (dict "enabled" false) -}}
{{- $byModel := dict -}}
{{- $advised := dict -}}
{{- range $pool := (include "penstock.pools" . | fromJson).pools -}}
{{- $entry := dict "name" $pool.name "shape" $pool.shape "role" $pool.role "engine" $pool.engine -}}
{{- if $pool.version -}}{{- $_ := set $entry "version" $pool.version -}}{{- end -}}
{{- $_ := set $entry "replicas" (dict "kubernetes" (dict "service" $pool.workloadName "namespace" $.Release.Namespace "port" "replica")) -}}
{{- if ne $pool.scaling.by "none" -}}
{{- if ne $pool.scaling.by "penstock" -}}{{- $_ := set $advised $pool.model true -}}{{- end -}}
{{- $scaling := dict "min" (int $pool.scaling.min) "max" (int $pool.scaling.max) "startup_seconds" $pool.scaling.startupSeconds "start_timeout_seconds" $pool.scaling.startTimeoutSeconds -}}
{{- if not (kindIs "invalid" $pool.scaling.pricePerHour) -}}{{- $_ := set $scaling "price_per_hour" $pool.scaling.pricePerHour -}}{{- end -}}
{{- $workload := dict $pool.kind $pool.workloadName -}}
{{- if gt (int $pool.spot.max) 0 -}}
{{- $_ := set $scaling "spot_max" (int $pool.spot.max) -}}
{{- $_ := set $scaling "spot_price_per_hour" $pool.spot.pricePerHour -}}
{{- $_ := set $workload "spot" (printf "%s-spot" $pool.workloadName) -}}
{{- end -}}
{{- $_ := set $entry "launcher" "kubernetes" -}}
{{- $_ := set $entry "workload" $workload -}}
{{- $_ := set $entry "scaling" $scaling -}}
{{- end -}}
{{- if and $.Values.replicaTls.enabled (has $pool.engine (list "simulated" "tensorrt_llm")) -}}
{{- $files := "/etc/penstock-replica-tls" -}}
{{- $_ := set $entry "tls" (dict "ca" (printf "%s/ca.crt" $files) "certificate" (printf "%s/tls.crt" $files) "key" (printf "%s/tls.key" $files)) -}}
{{- end -}}
{{- $entry = mergeOverwrite $entry $pool.config -}}
{{- $_ := set $byModel $pool.model (append (get $byModel $pool.model | default list) $entry) -}}
{{- end -}}
{{- $models := list -}}
{{- range $i, $model := $config.models -}}
{{- $pools := concat ($model.pools | default list) (get $byModel $model.name | default list) -}}
{{- if not $pools -}}{{- fail (printf "config.models[%d].pools: the model %q has no pool, neither here nor in pools" $i $model.name) -}}{{- end -}}
{{- $seen := dict -}}
{{- range $pool := $pools -}}
{{- if hasKey $seen $pool.name -}}{{- fail (printf "config.models[%d].pools: the model %q has two pools %q" $i $model.name $pool.name) -}}{{- end -}}
{{- $_ := set $seen $pool.name true -}}
{{- end -}}
{{- if hasKey $advised $model.name -}}
{{- if and $model.scaling (hasKey $model.scaling "mode") -}}{{- fail (printf "config.models[%d].scaling.mode: the chart sets it, by scaling.by of the model's pools" $i) -}}{{- end -}}
{{- $_ := set $model "scaling" (mergeOverwrite ($model.scaling | default dict) (dict "mode" "advise")) -}}
{{- end -}}
{{- $models = append $models (mergeOverwrite $model (dict "pools" $pools)) -}}
{{- end -}}
{{- $_ := set $config "models" $models -}}
{{- if include "penstock.keda" . -}}
{{- $_ := set $config "external_scaler" (mergeOverwrite ($config.external_scaler | default dict) (dict "host" "0.0.0.0" "port" 9004)) -}}
{{- end -}}
{{- $config | toPrettyJson -}}
{{- end -}}

{{/* What of the configuration needs a new start of a gateway when it changes (docs/operations.md, "Changing the configuration"). */}}
{{- define "penstock.restartConfig" -}}
{{- $config := include "penstock.config" . | fromJson -}}
{{- $models := list -}}
{{- range $model := $config.models -}}
{{- $pools := list -}}
{{- $launched := false -}}
{{- range $model.pools -}}
{{- if hasKey . "launcher" -}}{{- $launched = true -}}{{- end -}}
{{- $pools = append $pools (omit . "scaling") -}}
{{- end -}}
{{- if $launched -}}
{{- $scaling := pick ($model.scaling | default dict) "mode" "wait_seconds" -}}
{{- $models = append $models (mergeOverwrite (omit $model "aliases" "fallbacks" "safety" "price" "embeddings" "scaling" "pools") (dict "scaling" $scaling "pools" $pools)) -}}
{{- end -}}
{{- end -}}
{{- $tiers := list -}}
{{- range $config.tiers -}}{{- $tiers = append $tiers .name -}}{{- end -}}
{{- mergeOverwrite (omit $config "tenants" "safety" "models" "tiers") (dict "models" $models "tiers" $tiers) | toJson -}}
{{- end -}}

{{/* Seconds from SIGTERM to the end of a gateway: its grace, its drain, and 10 to end what is left and the admin API. */}}
{{- define "penstock.stopSeconds" -}}
{{- $listen := .Values.config.listen | default dict -}}
{{- $grace := ternary $listen.grace_seconds 5 (hasKey $listen "grace_seconds") -}}
{{- $drain := ternary $listen.drain_seconds 30 (hasKey $listen "drain_seconds") -}}
{{- add (ceil $grace | int) (ceil $drain | int) 10 -}}
{{- end -}}

{{/* "true" where KEDA asks the controller. */}}
{{- define "penstock.keda" -}}
{{- range (include "penstock.pools" . | fromJson).pools -}}
{{- if eq .scaling.by "keda" -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" where the controller has something to do. */}}
{{- define "penstock.scales" -}}
{{- range (include "penstock.pools" . | fromJson).pools -}}
{{- if has .scaling.by (list "penstock" "keda" "hpa") -}}true{{- end -}}
{{- end -}}
{{- end -}}
