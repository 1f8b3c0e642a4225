{{- /* How a pod comes to its DSN, whichever way the database is run: always by reference to a key of a Secret. */ -}}

{{- define "anabranch.databaseSecret" -}}
anabranch-database-{{ . }}
{{- end }}

{{- /* An environment variable with a DSN. Takes {root, role: operator | api | migrate | operatorListen | apiListen, variable}. */ -}}
{{- define "anabranch.dsn" -}}
{{- $database := .root.Values.database -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      {{- if eq $database.mode "existing" }}
      name: {{ required "database.existingSecret is needed: the Secret that holds the DSNs. (Or set database.mode to cloudnativepg or trial.)" $database.existingSecret }}
      key: {{ get $database.keys .role }}
      {{- else }}
      name: {{ include "anabranch.databaseSecret" .role }}
      key: dsn
      {{- end }}
{{- end }}

{{- /* The same for LISTEN, where the first goes through a pooler. Takes {root, role}. */ -}}
{{- define "anabranch.listenDsn" -}}
{{- $role := printf "%sListen" .role -}}
{{- if and (eq .root.Values.database.mode "existing") (get .root.Values.database.keys $role) }}
{{- include "anabranch.dsn" (dict "root" .root "role" $role "variable" "ANABRANCH_LISTEN_DSN") }}
{{- end }}
{{- end }}

{{- /* Secret and key of the authority to trust, as {name, key}; empty where there is none. */ -}}
{{- define "anabranch.databaseCa" -}}
{{- if eq .Values.database.mode "cloudnativepg" -}}
{name: anabranch-database-ca, key: ca.crt}
{{- else if and (eq .Values.database.mode "existing") .Values.database.caSecret.name -}}
{name: {{ .Values.database.caSecret.name }}, key: {{ .Values.database.caSecret.key }}}
{{- end -}}
{{- end }}

{{- define "anabranch.databaseMount" -}}
{{- if include "anabranch.databaseCa" . }}
- name: database-ca
  mountPath: /etc/anabranch/database
  readOnly: true
{{- end }}
{{- end }}

{{- define "anabranch.databaseVolume" -}}
{{- with include "anabranch.databaseCa" . | fromYaml }}
- name: database-ca
  secret:
    secretName: {{ .name }}
    items:
      - key: {{ .key }}
        path: ca.crt
{{- end }}
{{- end }}
