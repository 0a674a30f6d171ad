{{/* The pools with their defaults, in {pools: [...]}, each with what follows from it: gpus, nodes, workload, workloadName. Fails with the path of what cannot work. */}}
{{- define "penstock.pools" -}}
{{- $models := dict -}}
{{- range $i, $model := .Values.config.models -}}
{{- $_ := set $models $model.name (printf "config.models[%d]" $i) -}}
{{- end -}}
{{- $pools := list -}}
{{- $seen := dict -}}
{{- $names := dict -}}
{{- $modes := dict -}}
{{- range $i, $given := .Values.pools -}}
{{- $at := printf "pools[%d]" $i -}}
{{- $pool := mergeOverwrite (deepCopy $.Values.poolDefaults) $given -}}
{{- /* A volume has one source: that of the defaults is not merged with another one. */ -}}
{{- with $given.modelVolume -}}{{- if hasKey . "source" -}}{{- $_ := set $pool.modelVolume "source" .source -}}{{- end -}}{{- end -}}
{{- if not $pool.model -}}{{- fail (printf "%s.model: required: a pool serves one of config.models" $at) -}}{{- end -}}
{{- if not (hasKey $models $pool.model) -}}{{- fail (printf "%s.model: there is no model %q in config.models" $at $pool.model) -}}{{- end -}}
{{- $label := printf "%s %s" (include "penstock.label" $pool.model) $pool.name -}}
{{- with get $seen $label -}}{{- fail (printf "%s: selects the same pods as %s: model and pool have the same labels" $at .) -}}{{- end -}}
{{- $_ := set $seen $label $at -}}
{{- $name := include "penstock.poolName" (dict "root" $ "pool" $pool) -}}
{{- with get $names $name -}}{{- fail (printf "%s.name: its workload would have the name of that of %s: %s" $at . $name) -}}{{- end -}}
{{- $_ := set $names $name $at -}}
{{- $tp := int $pool.shape.tp -}}{{- $ep := int $pool.shape.ep -}}{{- $pp := int $pool.shape.pp -}}
{{- if ne (mod $tp $ep) 0 -}}{{- fail (printf "%s.shape.ep: %d does not divide tp, which is %d" $at $ep $tp) -}}{{- end -}}
{{- $gpus := mul $tp $pp -}}
{{- $perNode := int $pool.gpu.perNode -}}
{{- $nodes := int $pool.nodes -}}
{{- $simulated := eq $pool.engine "simulated" -}}
{{- if eq $nodes 0 -}}{{- $nodes = ternary 1 (int (div (add $gpus (sub $perNode 1)) $perNode)) $simulated -}}{{- end -}}
{{- if and (not $simulated) (ne (mod $gpus $nodes) 0) -}}{{- fail (printf "%s.nodes: %d GPUs (tp x pp) cannot be spread evenly over %d pods" $at $gpus $nodes) -}}{{- end -}}
{{- $each := ternary 0 (int (div $gpus $nodes)) $simulated -}}
{{- if gt $each $perNode -}}{{- fail (printf "%s.nodes: each pod would need %d GPUs, and a node has gpu.perNode %d" $at $each $perNode) -}}{{- end -}}
{{- if and (gt $nodes 1) (not $pool.workers.command) -}}{{- fail (printf "%s.workers.command: required: a replica has %d pods, and those beside the leader run it" $at $nodes) -}}{{- end -}}
{{- if not (or $simulated $pool.image) -}}{{- fail (printf "%s.image: required for engine %s: the chart's image has no engine" $at $pool.engine) -}}{{- end -}}
{{- if and $pool.healthPath (not (has $pool.engine (list "openai" "triton"))) -}}{{- fail (printf "%s.healthPath: engine %s has no HTTP" $at $pool.engine) -}}{{- end -}}
{{- $ours := has $pool.engine (list "simulated" "tensorrt_llm") -}}
{{- if and $pool.metricsPort (not $ours) -}}{{- fail (printf "%s.metricsPort: engine %s has metrics of its own" $at $pool.engine) -}}{{- end -}}
{{- if and $pool.metricsPort (eq (int $pool.metricsPort) (int $pool.port)) -}}{{- fail (printf "%s.metricsPort: is the pool's port, too" $at) -}}{{- end -}}
{{- if and $pool.modelVolume.preload.image (not $pool.modelVolume.source) -}}{{- fail (printf "%s.modelVolume.preload.image: there is no modelVolume.source to load into" $at) -}}{{- end -}}
{{- range $key := list "name" "shape" "role" "engine" "version" "replicas" "launcher" "workload" "scaling" -}}
{{- if hasKey $pool.config $key -}}{{- fail (printf "%s.config.%s: the chart sets it from the pool's own values" $at $key) -}}{{- end -}}
{{- end -}}
{{- $scaling := $pool.scaling -}}
{{- $by := $scaling.by -}}
{{- if gt (int $scaling.min) (int $scaling.max) -}}{{- fail (printf "%s.scaling.min: %d is over scaling.max, which is %d" $at (int $scaling.min) (int $scaling.max)) -}}{{- end -}}
{{- if and (eq $by "hpa") (eq (int $scaling.min) 0) -}}{{- fail (printf "%s.scaling.min: a HorizontalPodAutoscaler keeps one at least" $at) -}}{{- end -}}
{{- if and (eq $by "hpa") (ne (include "penstock.label" $pool.model) $pool.model) -}}{{- fail (printf "%s.scaling.by: a HorizontalPodAutoscaler selects by labels, and %q can be no label's value: use keda" $at $pool.model) -}}{{- end -}}
{{- $mode := ternary "none" (ternary "act" "advise" (eq $by "penstock")) (eq $by "none") -}}
{{- with get $modes $pool.model -}}
{{- if and (ne $mode "none") (ne (first .) $mode) -}}{{- fail (printf "%s.scaling.by: %s, but %s has another: of one model either the controller scales all pools or others do" $at $by (last .)) -}}{{- end -}}
{{- end -}}
{{- if ne $mode "none" -}}{{- $_ := set $modes $pool.model (list $mode (printf "%s.scaling.by" $at)) -}}{{- end -}}
{{- $spot := $pool.spot -}}
{{- if gt (int $spot.max) 0 -}}
{{- if ne $by "penstock" -}}{{- fail (printf "%s.spot.max: needs scaling.by: penstock" $at) -}}{{- end -}}
{{- if gt (int $spot.max) (int $scaling.max) -}}{{- fail (printf "%s.spot.max: %d is over scaling.max, which is %d" $at (int $spot.max) (int $scaling.max)) -}}{{- end -}}
{{- if kindIs "invalid" $spot.pricePerHour -}}{{- fail (printf "%s.spot.pricePerHour: required with spot.max" $at) -}}{{- end -}}
{{- if not $spot.nodeSelector -}}{{- fail (printf "%s.spot.nodeSelector: required with spot.max: which nodes are preemptible?" $at) -}}{{- end -}}
{{- end -}}
{{- $kind := ternary "leaderworkerset" "deployment" (gt $nodes 1) -}}
{{- $pools = append $pools (mergeOverwrite $pool (dict "at" $at "workloadName" $name "kind" $kind "nodes" $nodes "gpus" $each)) -}}
{{- end -}}
{{- dict "pools" $pools | toJson -}}
{{- end -}}

{{/* The labels by which a pool's pods are found and told apart: (dict "root" $ "pool" POOL). */}}
{{- define "penstock.poolLabels" -}}
{{- $shape := .pool.shape -}}
penstock/model: {{ include "penstock.label" .pool.model | quote }}
penstock/pool: {{ .pool.name | quote }}
penstock/shape: tp{{ int $shape.tp }}{{ if gt (int $shape.ep) 1 }}-ep{{ int $shape.ep }}{{ end }}{{ if gt (int $shape.pp) 1 }}-pp{{ int $shape.pp }}{{ end }}
penstock/role: {{ .pool.role }}
{{- with .pool.version }}
penstock/version: {{ . | quote }}
{{- end }}
{{- end -}}
