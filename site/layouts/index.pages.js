{{- $pages := slice -}}
{{- range .Site.RegularPages -}}
{{- $headings := slice -}}
{{- range findRE `<h[2-4] id="[^"]+">.*?</h[2-4]>` .Content -}}
{{- $headings = $headings | append (dict "id" (replaceRE `^<h[2-4] id="([^"]+)">.*$` "$1" .) "text" (htmlUnescape (plainify .))) -}}
{{- end -}}
{{- $pages = $pages | append (dict "path" (partial "path.html" .) "section" (index .Site.Params.names .Section) "title" (partial "title.html" .) "headings" $headings "text" (htmlUnescape .Plain | replaceRE `\s+` " ")) -}}
{{- end -}}
window.orchPages = {{ $pages | jsonify }}
