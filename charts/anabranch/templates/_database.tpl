{{- /* How a pod comes to its DSN, whichever way the database is run: always by reference to a key of a Secret. */ -}}

{{- define "anabranch.databaseSecret" -}}
anabranch-database-{{ . }}
{{- end }}

{{- /*
An environment variable with a DSN. Takes {root, role: operator | api | migrate | operatorListen | apiListen |
apiStandbys, variable, store: its name, or nothing for the default one}.
*/ -}}
{{- define "anabranch.dsn" -}}
{{- $database := .root.Values.database -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      {{- if .store }}
      {{- with get .root.Values.stores .store }}
      name: {{ .existingSecret }}
      key: {{ get (merge (dict) (.keys | default dict) $database.keys) $.role }}
      {{- end }}
      {{- else if eq $database.mode "existing" }}
      name: {{ required "database.existingSecret is needed: the Secret that holds the DSNs. (Or set database.mode to cloudnativepg or trial.)" $database.existingSecret }}
      key: {{ get $database.keys .role }}
      {{- else }}
      name: {{ include "anabranch.databaseSecret" .role }}
      key: dsn
      {{- end }}
{{- end }}

{{- /* The same for LISTEN, where the first goes through a pooler. Takes {root, role, store, variable}. */ -}}
{{- define "anabranch.listenDsn" -}}
{{- $role := printf "%sListen" .role -}}
{{- if .store }}
{{- if get ((get .root.Values.stores .store).keys | default dict) $role }}
{{- include "anabranch.dsn" (dict "root" .root "role" $role "store" .store "variable" (.variable | default "ANABRANCH_LISTEN_DSN")) }}
{{- end }}
{{- else if and (eq .root.Values.database.mode "existing") (get .root.Values.database.keys $role) }}
{{- include "anabranch.dsn" (dict "root" .root "role" $role "variable" "ANABRANCH_LISTEN_DSN") }}
{{- end }}
{{- end }}

{{- /* The API's way to the standbys, where there is one. */ -}}
{{- define "anabranch.standbysDsn" -}}
{{- $database := .Values.database -}}
{{- if and (eq $database.mode "existing") $database.keys.apiStandbys }}
{{- include "anabranch.dsn" (dict "root" . "role" "apiStandbys" "variable" "ANABRANCH_API_DSN_RO") }}
{{- else if and (eq $database.mode "cloudnativepg") $database.cloudnativepg.readFromStandbys (gt (int $database.cloudnativepg.instances) 1) -}}
- name: ANABRANCH_API_DSN_RO
  valueFrom:
    secretKeyRef:
      name: {{ include "anabranch.databaseSecret" "api" }}
      key: dsn-ro
      # A Secret that somebody else keeps may not have it.
      optional: true
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

{{- /* The names of the stores besides the default one, as a JSON list, in an order that stays. */ -}}
{{- define "anabranch.stores" -}}
{{- if hasKey .Values.stores "default" -}}
{{- fail "stores: `default` is the database of `database`, and cannot be another one." -}}
{{- end -}}
{{- keys .Values.stores | sortAlpha | toJson -}}
{{- end }}

{{- /* What both programs are told of them. */ -}}
{{- define "anabranch.storeNames" -}}
{{- with include "anabranch.stores" . | fromJsonArray }}
- name: ANABRANCH_STORES
  value: {{ join "," . }}
{{- end }}
{{- end }}

{{- /* Mounts of the authorities of stores. Takes {root, stores: names}. */ -}}
{{- define "anabranch.storeMounts" -}}
{{- range $name := .stores }}
{{- if ((get $.root.Values.stores $name).caSecret).name }}
- name: store-{{ $name }}
  mountPath: /etc/anabranch/stores/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{- define "anabranch.storeVolumes" -}}
{{- range $name := .stores }}
{{- with (get $.root.Values.stores $name).caSecret }}
{{- if .name }}
- name: store-{{ $name }}
  secret:
    secretName: {{ .name }}
    items:
      - key: {{ .key | default "ca.crt" }}
        path: ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end }}
