{{- /*
Secrets that the chart draws. What is there already stays, so an upgrade changes none of them; where the chart is rendered
without the cluster (`lookup` finds nothing then) each rendering draws anew, and `generateSecrets: false` forbids it.
*/ -}}

{{- define "anabranch.mayGenerate" -}}
{{- if not .root.Values.generateSecrets -}}
{{- fail (printf "generateSecrets is false, so %s" .instead) -}}
{{- end -}}
{{- end }}

{{- /* The value of a Secret's key, as text: what is there, else new letters and digits. Takes {root, name, key}. */ -}}
{{- define "anabranch.kept" -}}
{{- $found := lookup "v1" "Secret" .root.Release.Namespace .name -}}
{{- if and $found (hasKey $found "data") (hasKey $found.data .key) -}}
{{- index $found.data .key | b64dec -}}
{{- else -}}
{{- randAlphaNum 43 -}}
{{- end -}}
{{- end }}
