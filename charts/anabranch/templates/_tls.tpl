{{- /* Which way the API gets its certificate. */ -}}

{{- define "anabranch.tlsMode" -}}
{{- $mode := .Values.api.tls.mode -}}
{{- if eq $mode "auto" -}}
{{- /* Who trusts a generated authority must not lose it because somebody installs cert-manager. */ -}}
{{- $generated := lookup "v1" "Secret" .Release.Namespace "anabranch-api-tls" -}}
{{- $issuable := .Capabilities.APIVersions.Has "cert-manager.io/v1" -}}
{{- ternary "certManager" "generated" (and $issuable (not $generated)) -}}
{{- else -}}
{{- $mode -}}
{{- end -}}
{{- end }}

{{- /* The Secret with tls.crt, tls.key and ca.crt. */ -}}
{{- define "anabranch.tlsSecret" -}}
{{- $mode := include "anabranch.tlsMode" . -}}
{{- if eq $mode "existingSecret" -}}
{{ required "api.tls.existingSecret is needed with api.tls.mode existingSecret." .Values.api.tls.existingSecret }}
{{- else if eq $mode "certManager" -}}
anabranch-api-certificate
{{- else if eq $mode "generated" -}}
anabranch-api-tls
{{- end -}}
{{- end }}

{{- define "anabranch.tlsNames" -}}
{{- $host := include "anabranch.apiHost" . -}}
{{- concat (list $host "anabranch-api" (printf "anabranch-api.%s" .Release.Namespace) (printf "%s.cluster.local" $host)) .Values.api.tls.extraNames | uniq | toJson -}}
{{- end }}
