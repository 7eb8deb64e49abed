// Recorded is what alerts and dashboards ask for again and again over long ranges, and nothing else.
{
  local lib = (import '../lib.libsonnet')($._config),
  // A series that has fewer samples than its group began within the hour, with its first event, which an increase does
  // not see: all that it counts happened since.
  local counted(counter) = |||
    max by (cluster, group, cause) (
      (
        last_over_time(%(counter)s[1h])
        and
        count_over_time(%(counter)s[1h])
        < ignoring (cause) group_left count_over_time(%(group)s[1h])
      )
      or
      increase(%(counter)s[1h])
    )
  ||| % { counter: lib.metric(counter), group: lib.metric('kshadow_group_members') },
  local origin = lib.metric('kshadow_group_departures_by_origin_total'),
  local origins = 'max by (cluster, group, origin) (%s)',

  prometheusRules+:: {
    groups+: [
      {
        name: 'kshadow.rules',
        rules: [
          {
            record: 'cluster_group_cause:kshadow_group_rebalances:increase1h',
            expr: counted('kshadow_group_rebalances_total'),
          },
          {
            record: 'cluster_group_cause:kshadow_group_member_departures:increase1h',
            expr: counted('kshadow_group_member_departures_total'),
          },
          {
            // A counter begins with its first event: one that was not there an hour ago was zero then. Unless an agent
            // was away just then: what it said last, within the hour before.
            record: 'cluster_group_origin:kshadow_group_departures_by_origin:increase1h',
            expr: '%s - (%s or 0 * %s) > 0' % [
              origins % origin,
              origins % ('last_over_time(%s[1h] offset 1h)' % origin),
              origins % origin,
            ],
          },
          {
            // Its slowest topic. Unknown lag is absent.
            record: 'cluster_group:kshadow_group_topic_lag_seconds:max',
            expr: 'max by (cluster, group) (%s)' % lib.metric('kshadow_group_topic_lag_seconds'),
          },
        ],
      },
    ],
  },
}
