#!/bin/sh
# kshadow's rights on Amazon MSK, those it needs and no other. Read README.md first: on MSK an ACL may shut others out.
#   BOOTSTRAP=b-1…:9096 COMMAND_CONFIG=admin.properties PRINCIPAL=User:kshadow sh acls.sh
# The principal of a user with a password is User:NAME; of a client certificate, User:CN=… with its whole subject.
set -eu
acl() { kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$COMMAND_CONFIG" --add --allow-principal "$PRINCIPAL" "$@"; }

# What kshadow reads. Read brings Describe along. This one is always needed.
acl --operation Read --topic __consumer_offsets
# When join phases begin, and whether the brokers see each group as kshadow does. Not needed with `admin: false`.
acl --operation Describe --group '*'
# Where partitions end: lag. Not needed with `lag: false`.
acl --operation Describe --topic '*'
# How far share groups are. Not needed with `share-lag: false`, nor without share groups.
acl --operation Read --topic __share_group_state
# Whose open transaction hides records. Not needed: without it that has no name.
acl --operation Read --topic __transaction_state
# Session timeouts that brokers set, of KIP-848, share and Streams groups, need DescribeConfigs on the cluster (--cluster) and
# on groups. Not granted here: an ACL on the cluster may shut others out of it. `broker-config` in the values tells them.
# Where the history goes. Not needed without `history-topic`.
acl --operation Write --topic kshadow-history
