{{- /* What the pods of Directors and conductors have in common. Each takes {root, part}, part being the values of one. */}}

{{- define "coterie.labels" -}}
app.kubernetes.io/name: coterie
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "coterie.pod" -}}
automountServiceAccountToken: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{ include "coterie.labels" . | nindent 6 }}
{{- end }}

{{- define "coterie.container" -}}
image: {{ required "set image to what was built from deploy/container" .root.Values.image }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with .part.resources }}
resources: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "coterie.env" -}}
{{- $database := .root.Values.database }}
- name: COTERIE_DATABASE
  value: postgresql://{{ .part.role }}@{{ required "set database.host" $database.host }}:{{ $database.port }}/{{ $database.name }}?sslmode=verify-full&sslrootcert=/etc/coterie/database/ca.crt
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {{ toJson .part.passwordSecret }}}
{{- range $name, $value := .part.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "coterie.database" -}}
- name: database
  configMap: {name: {{ required "set database.caConfigMap" .root.Values.database.caConfigMap }}}
{{- end }}
