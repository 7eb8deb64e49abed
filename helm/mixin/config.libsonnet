{
  _config+:: {
    // Matchers that every series of kshadow is chosen by, such as 'job="kshadow"'. Empty: by its name alone.
    selector: '',

    // Where an alert's section of the runbooks is: %s is the alert's name in small letters.
    runbookURLPattern: 'docs/runbooks.md#%s',

    // So long what an agent said last of a group holds while none says anything: its restart ends no alert, nor the
    // waiting of one.
    awayFor: '5m',

    // Findings have waited and counted already when they open: these wait only for an agent that comes and goes.
    stormFor: '2m',
    timeoutsFor: '2m',
    stalledFor: '5m',
    // What costs no more than capacity may last through a deploy and a scaling.
    imbalanceFor: '30m',
    idleFor: '1h',

    // Lag grows where over the whole window it was never less than so many seconds, and rose by so many a second.
    // The window is longer than the pauses between commits of sinks that commit by the hour.
    lagSeconds: 300,
    lagSecondsCritical: 3600,
    lagGrowth: 0.02,
    lagWindow: '1h',
    lagFor: '15m',

    // A group should have members if it had some for that part of the last day: batch jobs have not.
    emptyPresentShare: 0.75,
    emptyFor: '10m',

    absentFor: '15m',
    downFor: '10m',
    // Less than an hour, after which Kubernetes ends an agent that never got there.
    notCaughtUpFor: '30m',
    // Between two starts of an agent that is ended again and again Kubernetes lets up to five minutes pass.
    restartsWithin: '10m',
    // Within an hour, of one instance: a rollout makes others.
    restarts: 3,
    restartingFor: '0m',
    // With fewer records to the end of a partition the agent takes itself for being up to date.
    behindRecords: 10000,
    behindFor: '15m',
    // Its age alone says how long: transactions that commit offsets last for seconds at most.
    openTransactionSeconds: 60,
    openTransactionFor: '0m',
    readingStoppedFor: '5m',
    decodeErrorsFor: '5m',
    recordsPassedOverFor: '5m',
    // Twice the range that is looked at: what happens once is no alert.
    timestampsAheadFor: '20m',
    divergenceFor: '15m',
    // Longer than a file of history is written to (--history-roll, 5 min): until then its events wait.
    historySeconds: 900,
    historyFor: '5m',
    // What stands still is kept anew each half hour; from 23 hours on a snapshot is refused.
    snapshotSeconds: 7200,
    snapshotFor: '15m',
    reloadFor: '5m',
    seriesLeftOutFor: '15m',
    lagRequestsFailedShare: 0.5,
    lagRequestsFor: '15m',
    // A batch of a stream takes in a million records at once, some minutes of work.
    streamBehindRecords: 1000000,
    streamBehindFor: '15m',
    streamStalledSeconds: 1800,
    // The watermark is --watermark (10 min) behind the newest event, and events come when something happens.
    streamWatermarkSeconds: 21600,
    streamFailingFor: '5m',
  },
}
