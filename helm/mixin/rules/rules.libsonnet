// Recorded is what alerts and dashboards ask for again and again over long ranges, and nothing else.
{
  local lib = (import '../lib.libsonnet')($._config),

  prometheusRules+:: {
    groups+: [
      {
        name: 'kshadow.rules',
        rules: [
          {
            record: 'cluster_group_cause:kshadow_group_rebalances:increase1h',
            expr: 'max by (cluster, group, cause) (increase(%s[1h]))' % lib.metric('kshadow_group_rebalances_total'),
          },
          {
            record: 'cluster_group_cause:kshadow_group_member_departures:increase1h',
            expr: 'max by (cluster, group, cause) (increase(%s[1h]))' %
                  lib.metric('kshadow_group_member_departures_total'),
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
