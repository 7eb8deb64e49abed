// Streams of kshadow spark, served with --listen: history or rollups that stop growing.
{
  local config = $._config,
  local lib = (import '../lib.libsonnet')(config),
  local metric(name) = lib.metric('kshadow_spark_stream_' + name),
  local stream = '{{ $labels.query }} of {{ $labels.instance }}',

  prometheusAlerts+:: {
    groups+: [
      {
        name: 'kshadow-streams',
        rules: [
          lib.alert(
            'KshadowStreamBehind',
            'warning',
            config.streamBehindFor,
            |||
              (
                sum without (source) (%(behind)s) > %(records)d
                and
                sum without (source) (%(behind)s - %(behind)s offset 15m) >= 0
              )
              or
              (
                time() - %(progress)s > %(seconds)d
                and
                %(up)s == 1
              )
            ||| % {
              behind: metric('behind_records'),
              progress: metric('last_progress_timestamp_seconds'),
              up: metric('up'),
              records: config.streamBehindRecords,
              seconds: config.streamStalledSeconds,
            },
            'The Spark stream %s does not keep up with what it reads.' % stream,
            'The Spark stream %s runs, and either has more than %d records to read and comes no nearer ' % [stream, config.streamBehindRecords] +
            'to their end, or has ended no batch for more than %s. Its tables are that old; nothing is lost ' % lib.duration(config.streamStalledSeconds) +
            'while the topic keeps the records.'
          ),
          // Its checkpoint has the count. In Kubernetes each start is another instance, which begins with what it
          // was, and may end again before the alert has waited.
          lib.alert(
            'KshadowStreamFailing',
            'warning',
            config.streamFailingFor,
            |||
              increase(%(failures)s[1h]) > 0
              or
              (
                (last_over_time(%(failures)s[10m]) unless present_over_time(%(failures)s[1h] offset 1h))
                > on (job, namespace, query) group_left
                max by (job, namespace, query) (last_over_time(%(failures)s[1d] offset 1h))
              )
              or
              (
                %(age)s > %(late)d
                and
                increase(%(input)s[1h]) > 0
              )
            ||| % {
              failures: metric('failures_total'),
              age: metric('watermark_age_seconds'),
              late: config.streamWatermarkSeconds,
              input: metric('input_records_total'),
            },
            'The Spark stream %s fails, or its watermark is late.' % stream,
            'The Spark stream %s either ended otherwise than in order within the last hour, or it reads events while ' % stream +
            'its watermark stays more than %s behind: then no window of the rollups is written.' % lib.duration(config.streamWatermarkSeconds)
          ),
        ],
      },
    ],
  },
}
