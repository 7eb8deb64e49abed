// The dashboards are written elsewhere (../dashboards), and taken as they are.
{
  grafanaDashboards+:: {
    'kshadow-fleet.json': import '../kshadow/files/dashboards/kshadow-fleet.json',
    'kshadow-group.json': import '../kshadow/files/dashboards/kshadow-group.json',
    'kshadow-agent.json': import '../kshadow/files/dashboards/kshadow-agent.json',
  },
}
