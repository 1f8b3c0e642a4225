{{- /* What every pod of ours has in common. */ -}}

{{- define "anabranch.podSecurityContext" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "anabranch.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "anabranch.imageOf" -}}
image: {{ include "anabranch.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "anabranch.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* Which nodes pods may go to, and before whom. Takes values with the four. */ -}}
{{- define "anabranch.nodes" -}}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* Where the pods of a Deployment go. Takes {root, pods: its values, component}. */ -}}
{{- define "anabranch.placement" -}}
{{- $selector := dict "matchLabels" (merge (dict "app.kubernetes.io/component" .component) (include "anabranch.selector" .root | fromYaml)) -}}
{{- $spread := .pods.topologySpreadConstraints -}}
{{- if not $spread -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" -}}
{{- /* Counted for each revision by itself, or a rolling update would leave its pods where the old ones made room. */ -}}
{{- $spread = append $spread (dict "maxSkew" 1 "topologyKey" $key "whenUnsatisfiable" "ScheduleAnyway" "matchLabelKeys" (list "pod-template-hash")) -}}
{{- end -}}
{{- end }}
topologySpreadConstraints:
  {{- range $spread }}
  - {{ merge (dict) . (dict "labelSelector" $selector) | toYaml | nindent 4 | trim }}
  {{- end }}
{{- include "anabranch.nodes" .pods }}
{{- end }}

{{- /* Holds a pod back until the database has this release's schema. Takes {root, role, store}. */ -}}
{{- define "anabranch.waitForSchema" -}}
- name: schema
  {{- include "anabranch.imageOf" .root | nindent 2 }}
  args: [migrate, --wait={{ .root.Values.migration.waitSeconds }}]
  env:
    {{- include "anabranch.dsn" (dict "root" .root "role" .role "store" .store "variable" "ANABRANCH_MIGRATE_DSN") | nindent 4 }}
  securityContext:
    {{- include "anabranch.containerSecurityContext" .root | nindent 4 }}
  resources:
    {{- toYaml .root.Values.migration.resources | nindent 4 }}
  volumeMounts:
    - name: tmp
      mountPath: /tmp
    {{- with include "anabranch.databaseMount" .root | trim }}{{ . | nindent 4 }}{{ end }}
    {{- if .store }}{{ with include "anabranch.storeMounts" (dict "root" .root "stores" (list .store)) | trim }}{{ . | nindent 4 }}{{ end }}{{ end }}
{{- end }}
