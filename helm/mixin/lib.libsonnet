// What alerts and rules share. A group may be exported by two agents for a while (a sidecar and a central one, a shard
// that moves), so whatever is said of groups is the maximum over agents, never a sum. `cluster` is there only where an
// agent reads several.
function(config) {
  // A metric, chosen by the selector of the settings and by these matchers.
  metric(name, matchers=[])::
    local all = (if config.selector == '' then [] else [config.selector]) + matchers;
    if all == [] then name else '%s{%s}' % [name, std.join(', ', all)],

  // What was said last of it, by an agent that may be away now.
  last(metric):: 'last_over_time(%s[%s])' % [metric, config.awayFor],

  // 1 for each group that has such a finding open. What is critical is a warning as well, so that nothing seems to be
  // over when it gets worse: Alertmanager can hide the one behind the other.
  finding(analyzer, severity)::
    local matcher = if severity == 'warning' then 'severity=~"warning|critical"' else 'severity="%s"' % severity;
    'max by (cluster, group) (%s) == 1' % $.last(
      $.metric('kshadow_finding_active', ['analyzer="%s"' % analyzer, matcher])
    ),

  // That, with a number about the group as value; 0 where the number is not known.
  findingWith(analyzer, severity, number)::
    |||
      (
        %(number)s
        and on (cluster, group)
        (%(finding)s)
      )
      or
      (%(finding)s) * 0
    ||| % { number: std.strReplace(number, '\n', '\n  '), finding: $.finding(analyzer, severity) },

  alert(name, severity, duration, expr, summary, description):: {
    alert: name,
    expr: std.rstripChars(expr, '\n'),
    'for': duration,
    labels: { severity: severity },
    annotations: {
      summary: summary,
      description: description,
      runbook_url: config.runbookURLPattern % std.asciiLower(name),
    },
  },

  duration(seconds)::
    if seconds % 3600 == 0 then '%d h' % (seconds / 3600)
    else if seconds % 60 == 0 then '%d min' % (seconds / 60)
    else '%d s' % seconds,

  // Strangers choose the names of groups and clusters: they stand here as labels and nowhere else.
  group:: '{{ $labels.group }}{{ with $labels.cluster }} (cluster {{ . }}){{ end }}',
  agent:: '{{ $labels.instance }}{{ with $labels.cluster }} (cluster {{ . }}){{ end }}',
}
