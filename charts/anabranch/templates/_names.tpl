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
