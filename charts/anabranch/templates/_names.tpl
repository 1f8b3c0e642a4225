{{- /*
Names are fixed, not made from the release's: a cluster has one Anabranch, since definitions and admission policies are
the cluster's. Helm itself refuses a second release, which does not own them.
*/ -}}

{{- define "anabranch.selector" -}}
app.kubernetes.io/name: anabranch
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "anabranch.labels" -}}
{{ include "anabranch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /*
What the values add to a mapping and what the chart sets in it, as one: no key stands twice, and the chart's counts. Takes
{added, own: YAML}.
*/ -}}
{{- define "anabranch.with" -}}
{{- merge (.own | fromYaml) (.added | default dict) | toYaml -}}
{{- end }}

{{- /* The labels of a Deployment's pods. Takes {root, pods: its values, component, store}. */ -}}
{{- define "anabranch.podLabels" -}}
{{- $own := printf "%s\napp.kubernetes.io/component: %s" (include "anabranch.selector" .root) .component -}}
{{- with .store }}{{ $own = printf "%s\nanabranch.dev/store: %s" $own . }}{{ end -}}
{{- include "anabranch.with" (dict "added" .pods.labels "own" $own) -}}
{{- end }}

{{- define "anabranch.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "anabranch.audience" -}}
{{ .Values.audience | default (printf "anabranch.%s" .Release.Namespace) }}
{{- end }}

{{- define "anabranch.apiHost" -}}
anabranch-api.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "anabranch.apiUrl" -}}
{{- $disabled := eq .Values.api.tls.mode "disabled" -}}
{{- $port := int .Values.api.service.port -}}
{{ ternary "http" "https" $disabled }}://{{ include "anabranch.apiHost" . }}
{{- if ne $port (ternary 80 443 $disabled) }}:{{ $port }}{{ end }}
{{- end }}
