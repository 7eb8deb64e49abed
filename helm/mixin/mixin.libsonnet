// kshadow's monitoring mixin: alerts, recording rules and dashboards, the usual way:
//
//   (import 'mixin.libsonnet') + { _config+:: { selector: 'job="kshadow"' } }
//
// What comes of it with the settings as they are here is in ../kshadow/files (python -m tests.generate.mixin).
(import 'config.libsonnet') +
(import 'alerts/groups.libsonnet') +
(import 'alerts/agent.libsonnet') +
(import 'alerts/streams.libsonnet') +
(import 'rules/rules.libsonnet') +
(import 'dashboards.libsonnet')
