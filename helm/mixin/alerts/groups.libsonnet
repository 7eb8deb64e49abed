// What is wrong with groups. The analyzers of the agent tell a storm from a deploy; most alerts only add numbers.
{
  local config = $._config,
  local lib = (import '../lib.libsonnet')(config),
  local group = lib.group,

  local rebalances = 'sum by (cluster, group) (cluster_group_cause:kshadow_group_rebalances:increase1h)',
  local departures(cause) =
    'max by (cluster, group) (cluster_group_cause:kshadow_group_member_departures:increase1h{cause="%s"})' % cause,
  local lag = 'cluster_group:kshadow_group_topic_lag_seconds:max',
  local lagNow = lib.last(lag),
  local lagRecords = 'max by (cluster, group) (%s)' % lib.last(lib.metric('kshadow_group_topic_lag_records')),
  local members = 'max by (cluster, group) (%s)' % lib.last(lib.metric('kshadow_group_members')),
  local byPartitions = 'max by (cluster, group) (%s)' % lib.metric('kshadow_group_assignment_imbalance_ratio'),
  local byRecords = 'max by (cluster, group) (%s)' % lib.metric('kshadow_group_load_imbalance_ratio'),

  local counted(what) = '{{ if ge $value 1.0 }} %s{{ end }}' % what,

  // What Kubernetes reports of members that left, where an agent runs with --kubernetes.
  local origins =
    '{{ with printf `sort_desc(topk(3, cluster_group_origin:kshadow_group_departures_by_origin:increase1h' +
    '{cluster=%q, group=%q}))` $labels.cluster $labels.group | query }} Kubernetes reports of members that left in the ' +
    'last hour:{{ range $at, $it := . }}{{ if $at }},{{ end }} ' +
    '{{ $it.Labels.origin | reReplaceAll "oom_killed" "OOM-killed" | reReplaceAll "_" " " }} ' +
    '({{ $it.Value | printf "%.0f" }}){{ end }}.{{ end }}',

  local storm(severity, more) = lib.alert(
    'KshadowRebalanceStorm',
    severity,
    config.stormFor,
    lib.findingWith('rebalance_storm', severity, rebalances),
    'Consumer group %s keeps rebalancing.' % group,
    'Consumer group %s rebalances repeatedly, and this is not a deploy%s.' % [group, more] +
    counted('Rebalances in the last hour: about {{ printf "%.0f" $value }}.') +
    origins +
    ' Each rebalance stops its members. kshadow explain names the client that leaves, and the cause.'
  ),

  local autoscaler = lib.alert(
    'KshadowAutoscalerStorm',
    'warning',
    config.stormFor,
    lib.findingWith('autoscaler_storm', 'warning', rebalances),
    'The autoscaler of consumer group %s reacts to lag that its own rebalances cause.' % group,
    'An autoscaler adds members to consumer group %s and removes them again, and each change stops the group and ' %
    group + 'makes it fall behind.' +
    counted('Rebalances in the last hour: about {{ printf "%.0f" $value }}.') +
    ' kshadow findings has the stabilization window that would prevent it.'
  ),

  local sessions(severity, more) = lib.alert(
    'KshadowSessionTimeouts',
    severity,
    config.timeoutsFor,
    lib.findingWith('session_timeout', severity, departures('session_timeout')),
    'Members of consumer group %s are removed because their sessions time out.' % group,
    'The brokers had no heartbeat from members of consumer group %s for session.timeout.ms, and removed them%s.' %
    [group, more] +
    counted('Members removed in this way in the last hour: about {{ printf "%.0f" $value }}.') +
    origins +
    ' Clients crash, are killed, or pause for longer than the timeout; their partitions are idle until then.'
  ),

  local polls(severity, more) = lib.alert(
    'KshadowPollStalls',
    severity,
    config.timeoutsFor,
    lib.findingWith('poll_timeout', severity, departures('poll_timeout')),
    'Members of consumer group %s take longer than max.poll.interval.ms between two polls.' % group,
    'Members of consumer group %s did not poll within max.poll.interval.ms and left the group%s.' % [group, more] +
    counted('Members removed in this way in the last hour: about {{ printf "%.0f" $value }}.') +
    origins +
    ' Other members process their last batches again.'
  ),

  local rejoins(severity, more) = lib.alert(
    'KshadowRejoinTimeouts',
    severity,
    config.timeoutsFor,
    lib.findingWith('rejoin_timeout', severity, departures('rejoin_timeout')),
    'Members of consumer group %s do not rejoin in time when it rebalances.' % group,
    'Members of consumer group %s did not rejoin within its rebalance timeout, and the brokers removed them%s.' %
    [group, more] +
    counted('Members removed in this way in the last hour: about {{ printf "%.0f" $value }}.') +
    origins +
    ' All members stopped while the group waited for them, and others process their last batches again.'
  ),

  local stalled(severity, more) = lib.alert(
    'KshadowConsumerStalled',
    severity,
    config.stalledFor,
    lib.findingWith('stalled_consumer', severity, lagRecords),
    'Consumer group %s makes no progress on some partitions.' % group,
    'Consumer group %s has members, and still%s partitions of it are not committed any more, or went back.' %
    [group, more] +
    counted('Up to {{ $value | humanize }} records of a topic wait.') +
    ' kshadow explain names the partitions and their members.'
  ),

  local growing(severity, seconds) = lib.alert(
    'KshadowLagGrowing',
    severity,
    config.lagFor,
    |||
      %(now)s
      and on (cluster, group) present_over_time(%(lag)s[%(window)s] offset %(window)s)
      and on (cluster, group) min_over_time(%(lag)s[%(window)s]) > %(seconds)d
      and on (cluster, group) deriv(%(lag)s[%(window)s]) > %(growth)g
      and on (cluster, group) %(members)s > 0
    ||| % {
      lag: lag,
      now: lagNow,
      window: config.lagWindow,
      seconds: seconds,
      growth: config.lagGrowth,
      members: members,
    },
    'Consumer group %s falls further behind.' % group,
    'Consumer group %s is {{ $value | humanizeDuration }} behind the end of its topics. ' % group +
    'For %s it was never less than %s behind, and its lag grows.' %
    [config.lagWindow, lib.duration(seconds)]
  ),

  local empty(severity, more, seconds) = lib.alert(
    'KshadowGroupEmpty',
    severity,
    config.emptyFor,
    // At ten minutes a step a day has 144.
    |||
      %(lagRecords)s > 0
      and on (cluster, group) %(members)s == 0
      and on (cluster, group)
        sum_over_time(max by (cluster, group) (%(metric)s > bool 0)[1d:10m]) >= %(steps)d
    ||| % {
      lagRecords: lagRecords,
      members: members,
      metric: lib.metric('kshadow_group_members'),
      steps: std.ceil(144 * config.emptyPresentShare),
    } + (if seconds == null then '' else 'and on (cluster, group) %s > %d\n' % [lagNow, seconds]),
    'Consumer group %s has no members, and records wait.' % group,
    'Consumer group %s had members for most of the last day and has none now%s. ' % [group, more] +
    'Up to {{ $value | humanize }} records of a topic wait for it.' +
    origins
  ),

  prometheusAlerts+:: {
    groups+: [
      {
        name: 'kshadow-groups',
        rules: [
          storm('warning', ''),
          storm('critical', '; it lasts, or stops the group most of the time'),
          autoscaler,
          sessions('warning', ''),
          sessions('critical', ', many of them repeatedly'),
          polls('warning', ''),
          polls('critical', ', many of them repeatedly'),
          rejoins('warning', ''),
          rejoins('critical', ', many of them repeatedly'),
          lib.alert(
            'KshadowImbalance',
            'warning',
            config.imbalanceFor,
            lib.findingWith(
              'unbalanced_assignment',
              'warning',
              '((%(p)s > %(r)s) or %(r)s or %(p)s)' % { p: byPartitions, r: byRecords },
            ),
            'Partitions of consumer group %s are assigned unevenly.' % group,
            'One member of consumer group %s has far more partitions or records than the others' % group +
            '{{ if ge $value 1.0 }}: {{ $value | humanize }} times a fair share of the partitions, or of the ' +
            'records{{ end }}. ' +
            'kshadow assign shows what other assignors would assign.'
          ),
          lib.alert(
            'KshadowIdleMembers',
            'info',
            config.idleFor,
            lib.findingWith(
              'idle_members',
              'info',
              'max by (cluster, group) (%s)' % lib.metric('kshadow_group_idle_members'),
            ),
            'Consumer group %s has members without partitions.' % group,
            'Members of consumer group %s hold no partition while others do' % group +
            '{{ if ge $value 1.0 }} (members: {{ $value }}){{ end }}: ' +
            'it has more members than its topics have partitions, or its assignor gives them to a few.'
          ),
          stalled('warning', ' it seems that'),
          stalled('critical', ''),
          growing('warning', config.lagSeconds),
          growing('critical', config.lagSecondsCritical),
          empty('warning', '', null),
          empty(
            'critical',
            ', and its oldest record has waited for more than %s' % lib.duration(config.lagSecondsCritical),
            config.lagSecondsCritical
          ),
        ],
      },
    ],
  },
}
