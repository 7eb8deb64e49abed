"""Rollouts of a group's workload, and a verdict on each: from history events alone, so that an agent, files, a broker
and months of history answer alike.

`turnover` finds who took whose place and cuts the events into rollouts (read it first), `places` which place that is,
`measures` says what each came to, `verdicts` makes a word of that by stated rules, `parameters` has their numbers,
`sentences` the words for people. Time is an argument.
"""
