{{- /* What a process is told of tracing, as environment variables. */ -}}
{{- define "anabranch.tracing" -}}
{{- with .Values.tracing }}
{{- if .endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .endpoint | quote }}
- name: OTEL_TRACES_SAMPLER
  value: {{ .sampler }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ .ratio | quote }}
- name: ANABRANCH_TRACE_CALLERS
  value: {{ .callers }}
- name: ANABRANCH_TRACE_CALLERS_PER_SECOND
  value: {{ .callersPerSecond | quote }}
{{- if .headersSecret }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef:
      name: {{ .headersSecret }}
      key: headers
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The rule that lets spans out, to the port of the collector. */ -}}
{{- define "anabranch.tracingEgress" -}}
{{- with .Values.tracing.endpoint }}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) }}
# The collector of spans.
- ports:
    - {protocol: TCP, port: {{ $port }}}
{{- end }}
{{- end }}
