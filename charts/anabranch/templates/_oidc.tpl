{{- /* What the API is told of the issuer of people's tokens; nothing, where there is none. */ -}}
{{- define "anabranch.oidc" -}}
{{- $oidc := .Values.auth.oidc -}}
{{- if $oidc.issuer -}}
{{- $id := required "auth.oidc.clientId is needed with auth.oidc.issuer." $oidc.clientId -}}
{{- $told := pick $oidc "issuer" "usernameClaim" "usernamePrefix" "groupsClaim" "groupsPrefix" "requiredClaims" "signingAlgs" "scopes" "sessionMinutes" -}}
{{- $told = set $told "clientId" $id -}}
{{- with $oidc.publicUrl -}}{{- $told = set $told "publicUrl" . -}}{{- end -}}
{{- with $oidc.clientSecret.name -}}{{- $told = set $told "clientSecretFile" "/etc/anabranch/oidc/client-secret" -}}{{- end -}}
{{- with $oidc.caSecret.name -}}{{- $told = set $told "caFile" "/etc/anabranch/oidc/ca.crt" -}}{{- end -}}
{{- toYaml $told -}}
{{- else if or $oidc.clientId $oidc.publicUrl -}}
{{- fail "auth.oidc.issuer is needed: nobody is let in without." -}}
{{- end -}}
{{- end }}
