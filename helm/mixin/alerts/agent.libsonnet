// An agent that does not see, or does not see all: what it says of groups is then old, wrong or missing.
{
  local config = $._config,
  local lib = (import '../lib.libsonnet')(config),
  local agent = lib.agent,
  local lagRequests = 'kshadow_lag_requests_total',
  // An increase is not seen of what a counter begins with. What was not scraped an hour ago may be older than that.
  local grewWithinAnHour(counter) = |||
    increase(%(counter)s[1h]) > 0
    or
    (%(counter)s unless present_over_time(%(counter)s[1h] offset 1h)) > 0
  ||| % { counter: lib.metric(counter) },

  prometheusAlerts+:: {
    groups+: [
      {
        name: 'kshadow-agent',
        rules: [
          lib.alert(
            'KshadowAgentAbsent',
            'critical',
            config.absentFor,
            'absent(%s)' % lib.metric('kshadow_build_info'),
            'Prometheus has no metrics of any kshadow agent.',
            'No kshadow agent is scraped: it does not run, or Prometheus does not find it. Nobody watches the ' +
            'consumer groups, and no other alert of kshadow can fire.'
          ),
          lib.alert(
            'KshadowAgentDown',
            'warning',
            config.downFor,
            // The new pod of a shard has its name, and another address.
            |||
              up == 0
              and on (job, instance) last_over_time(%(agent)s[1d])
              or
              up{container="kshadow"} == 0
              and on (job, namespace, pod) last_over_time(%(agent)s[1d])
            ||| % { agent: lib.metric('kshadow_build_info') },
            'The kshadow agent {{ $labels.instance }} cannot be scraped.',
            'The kshadow agent {{ $labels.instance }} (job {{ $labels.job }}) was scraped within the last day and ' +
            'does not answer now. Its groups are not watched, unless another agent reads them too.'
          ),
          lib.alert(
            'KshadowAgentRestarting',
            'warning',
            config.restartingFor,
            'changes(%s[1h]) >= %d\nand on (job, instance) last_over_time(%s[1h])' % [
              lib.metric('process_start_time_seconds'),
              config.restarts,
              lib.metric('kshadow_build_info'),
            ],
            'The kshadow agent {{ $labels.instance }} is ended again and again.',
            'The kshadow agent {{ $labels.instance }} (job {{ $labels.job }}) started again within the last hour, so ' +
            'many times: {{ $value }}. While it is away and reads what it missed, nobody watches its groups, and their ' +
            'alerts come late.'
          ),
          lib.alert(
            'KshadowAgentNotCaughtUp',
            'warning',
            config.notCaughtUpFor,
            'count without (partition) (last_over_time(%s[%s]) == 0)' % [
              lib.metric('kshadow_caught_up'),
              config.restartsWithin,
            ],
            'The kshadow agent %s has still not read the topic to its end.' % agent,
            'Partitions of __consumer_offsets that the kshadow agent %s has not read to their ends since it ' % agent +
            'started: {{ $value }}. Until it has, it tells nothing of any group.'
          ),
          lib.alert(
            'KshadowAgentBehind',
            'warning',
            config.behindFor,
            |||
              max without (partition) (
                %s
                unless %s > %d
              ) > %d
              unless min without (partition) (%s) == 0
            ||| % [
              lib.metric('kshadow_topic_behind_records'),
              lib.metric('kshadow_topic_open_transaction_seconds'),
              config.openTransactionSeconds,
              config.behindRecords,
              lib.metric('kshadow_caught_up'),
            ],
            'The kshadow agent %s is behind the end of the topic.' % agent,
            'A partition of __consumer_offsets has {{ $value | humanize }} records that the kshadow agent %s ' % agent +
            'has not read, and no open transaction hides them: it has too little CPU. What it says of groups is that ' +
            'old.'
          ),
          lib.alert(
            'KshadowOpenTransaction',
            'warning',
            config.openTransactionFor,
            'max without (partition) (%s) > %d' % [
              lib.metric('kshadow_topic_open_transaction_seconds'),
              config.openTransactionSeconds,
            ],
            'An open transaction hides from the kshadow agent %s what groups do.' % agent,
            'A transaction in a partition of __consumer_offsets has been open for {{ $value | humanizeDuration }}. ' +
            'Until it ends, nothing that was written to that partition since can be read. What the kshadow agent ' +
            '%s says of the groups there is as of its beginning (kshadow_group_stale). Its log names the ' % agent +
            'transaction.'
          ),
          lib.alert(
            'KshadowReadingStopped',
            'warning',
            config.readingStoppedFor,
            '%s == 0' % lib.metric('kshadow_source_healthy'),
            'The kshadow agent %s cannot read from Kafka.' % agent,
            'The kshadow agent %s runs, but reading __consumer_offsets does not work: what it says of groups ' % agent +
            'is as of when it stopped. With --source admin it may be that some brokers alone do not answer: of the ' +
            'groups that they coordinate it says nothing. Its /readyz gives the reason.'
          ),
          lib.alert(
            'KshadowDecodeErrors',
            'warning',
            config.decodeErrorsFor,
            grewWithinAnHour('kshadow_decode_errors_total'),
            'The kshadow agent %s cannot decode records of the topic.' % agent,
            'Records of __consumer_offsets that the kshadow agent %s could not decode within the last hour ' % agent +
            '({{ $labels.reason }}): about {{ printf "%.0f" $value }}. It goes on without them, so a group may be ' +
            'shown wrong. Its log has each with its offset.'
          ),
          lib.alert(
            'KshadowRecordsPassedOver',
            'warning',
            config.recordsPassedOverFor,
            grewWithinAnHour('kshadow_records_quarantined_total'),
            'The kshadow agent %s cannot read records of the topic.' % agent,
            'Batches of __consumer_offsets that the kshadow agent %s could not fetch or unpack within the last ' % agent +
            'hour ({{ $labels.reason }}): about {{ printf "%.0f" $value }} records. It has passed them over, so groups ' +
            'of those partitions may be shown wrong. Its log and its /readyz say which, and which setting reads them.'
          ),
          lib.alert(
            'KshadowTimestampsAhead',
            'warning',
            config.timestampsAheadFor,
            'increase(%s[10m]) > 0' % lib.metric('kshadow_records_ahead_total'),
            'Records of __consumer_offsets have timestamps that are ahead.',
            'Partition {{ $labels.partition }} of __consumer_offsets keeps receiving records whose timestamps are ahead. ' +
            'They move no clock. The clocks of the brokers or of the agent differ, or a client writes to the topic.'
          ),
          lib.alert(
            'KshadowShadowDivergence',
            'warning',
            config.divergenceFor,
            '%s > 0' % lib.metric('kshadow_shadow_divergence_groups'),
            'What the kshadow agent %s mirrors is not what the brokers say.' % agent,
            'The kshadow agent %s and the brokers say different things of some groups, each seen twice ' % agent +
            '({{ $labels.field }}; groups: {{ $value }}). Its log names the groups and both values.'
          ),
          lib.alert(
            'KshadowHistoryBackingUp',
            'warning',
            config.historyFor,
            '%s > %d' % [lib.metric('kshadow_history_oldest_buffered_seconds'), config.historySeconds],
            'History of the kshadow agent %s does not get to its sink {{ $labels.sink }}.' % agent,
            'Events of the kshadow agent %s have waited for {{ $value | humanizeDuration }} to be taken by ' % agent +
            'the sink {{ $labels.sink }}. Nothing is lost yet: they wait in the spool, or in memory where there is none. ' +
            'When that is full, events are dropped.'
          ),
          lib.alert(
            'KshadowHistoryDropped',
            'warning',
            '1m',
            grewWithinAnHour('kshadow_history_dropped_total'),
            'The kshadow agent %s drops history that its sink {{ $labels.sink }} did not take.' % agent,
            'The kshadow agent %s dropped about {{ printf "%%.0f" $value }} events within the last hour. ' % agent +
            'Either the sink {{ $labels.sink }} did not take them and there was no room left to keep them, or it refuses them for ' +
            'good, or they were damaged on disk. Its /api/v1/status says which. They are gone from the history; kshadow ' +
            'spark backfill makes them again from the topic for as long as that has the records.'
          ),
          lib.alert(
            'KshadowSnapshotOld',
            'warning',
            config.snapshotFor,
            '%s > %d' % [lib.metric('kshadow_snapshot_age_seconds'), config.snapshotSeconds],
            'The newest snapshot of the kshadow agent %s is old.' % agent,
            'The kshadow agent %s last kept all of its state {{ $value | humanizeDuration }} ago. A restart ' % agent +
            'has to read all that was written since; from 23 hours on it reads everything anew.'
          ),
          lib.alert(
            'KshadowSnapshotsFailing',
            'warning',
            config.snapshotFor,
            |||
              increase(%s[1h]) > 0
              unless ignoring (outcome) increase(%s[1h]) > 0
            ||| % [
              lib.metric('kshadow_snapshot_writes_total', ['outcome="failed"']),
              lib.metric('kshadow_snapshot_writes_total', ['outcome="ok"']),
            ],
            'The kshadow agent %s cannot keep its state.' % agent,
            'All of about {{ printf "%%.0f" $value }} snapshots that the kshadow agent %s tried to write within ' % agent +
            'the last hour failed. After a restart it reads the topic from its beginning.'
          ),
          lib.alert(
            'KshadowConfigReloadFailed',
            'warning',
            config.reloadFor,
            '%s == 0' % lib.metric('kshadow_config_last_reload_successful'),
            'The kshadow agent {{ $labels.instance }} refused its new configuration.',
            'The configuration of the kshadow agent {{ $labels.instance }} was changed and could not be taken. It ' +
            'goes on with the one before, and would not start with the one that is there now.'
          ),
          lib.alert(
            'KshadowSeriesLeftOut',
            'warning',
            config.seriesLeftOutFor,
            '%s > 0' % lib.metric('kshadow_series_left_out', ['reason="max_series"']),
            'The kshadow agent %s has more groups than it may export.' % agent,
            'The kshadow agent %s leaves out {{ $value | humanize }} series, since there would be more than ' % agent +
            '--max-series. No alert can fire for the groups they are of.'
          ),
          lib.alert(
            'KshadowLagRequestsFailing',
            'warning',
            config.lagRequestsFor,
            |||
              sum without (outcome) (increase(%s[30m]))
              / sum without (outcome) (increase(%s[30m])) > %g
            ||| % [
              lib.metric(lagRequests, ['outcome="failed"']),
              lib.metric(lagRequests),
              config.lagRequestsFailedShare,
            ],
            'The kshadow agent %s mostly cannot learn the lag of groups.' % agent,
            '{{ $value | humanizePercentage }} of the requests of the kshadow agent %s for the ends of ' % agent +
            'partitions failed within the last half hour. Lag that is not known is absent, and its alerts are silent.'
          ),
        ],
      },
    ],
  },
}
