"""A kshadow container in the pods of others: what it looks like, and manifests with it in them.

`container` makes it of values, `manifests` finds pod templates in YAML, `patching` puts it there by `edits` of the
text, so that everything else stays as it was written.
"""
