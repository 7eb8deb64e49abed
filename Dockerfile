# syntax=docker/dockerfile:1
# The agent without Spark and without Java. tests/live/image runs these steps without an engine, and says what that leaves.
ARG PYTHON=3.13
ARG BASE=python:${PYTHON}-slim-trixie

FROM ${BASE} AS build
# The same sources give the same wheel: its files are as old as this says, not as the checkout is.
ARG SOURCE_DATE_EPOCH=315532800
# [kubernetes] for --kubernetes, [parquet] for --history-parquet, [otlp] for --otlp, [aws] and [gcp] for those clouds' logins; several:
# [kubernetes,otlp].
ARG EXTRAS=[kubernetes]
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY pyproject.toml hatch_build.py constraints-hashes.txt requirements-build.txt README.md LICENSE ./
COPY agent ./agent
COPY analyzers ./analyzers
COPY spark_jobs ./spark_jobs
# No file comes in but those whose hashes are listed: first what builds the wheel, with a pip that holds dependencies of dependencies to
# hashes as well; then what is installed beside it, by wheels alone, so that no compiler is needed, and without pip; then
# what that is, as CycloneDX: the tool stays here. Where the compiled part cannot be built the agent does without it, and pip says why
# (--verbose).
RUN python -m pip install --no-compile --only-binary :all: --root-user-action ignore --require-hashes --requirement requirements-build.txt \
 && python -m pip wheel --verbose --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python -m venv --without-pip /opt/kshadow \
 && hash=$(sha256sum /wheels/*.whl) \
 && echo "kshadow${EXTRAS} @ file://$(echo /wheels/*.whl) --hash=sha256:${hash%% *}" > /wheels/requirements.txt \
 && python -m pip --python /opt/kshadow/bin/python install --no-compile --only-binary :all: \
      --require-hashes --constraint constraints-hashes.txt --requirement /wheels/requirements.txt \
 && /opt/kshadow/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/kshadow/lib \
 && mkdir -p /opt/kshadow/share/doc/kshadow \
 && python -m cyclonedx_py environment --output-reproducible --output-file /opt/kshadow/share/doc/kshadow/sbom.cdx.json /opt/kshadow/bin/python

# Spark's jobs, for the chart's `spark:`; docker build --target spark. pyspark comes as sources, which nothing has to compile.
FROM build AS build-spark
RUN sed 's/^kshadow[^ ]*/kshadow[spark]/' /wheels/requirements.txt > /wheels/spark.txt \
 && python -m pip --python /opt/kshadow/bin/python install --no-compile --only-binary :all: --no-binary pyspark \
      --require-hashes --constraint constraints-hashes.txt --requirement /wheels/spark.txt \
 && /opt/kshadow/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/kshadow/lib \
 && /opt/kshadow/bin/python -c "from pathlib import Path; from agent.tools.spark_submit.package import build; print(*build(Path('/code')))" \
 && mkdir /opt/kshadow/spark \
 && cp /code/*/* /opt/kshadow/spark/ \
 && python -m cyclonedx_py environment --output-reproducible --output-file /opt/kshadow/share/doc/kshadow/sbom.cdx.json /opt/kshadow/bin/python

FROM ${BASE} AS spark
# Debian's Java, whichever version it is today: security fixes come that way.
# Not every base has useradd: the user is a line.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-21-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && python -m pip uninstall --yes --root-user-action ignore pip \
 && rm -rf /usr/local/lib/python3*/ensurepip \
 && echo 'kshadow:x:65532:65532:kshadow:/tmp:/usr/sbin/nologin' >> /etc/passwd \
 && echo 'kshadow:x:65532:' >> /etc/group
COPY --from=build-spark /opt/kshadow /opt/kshadow
ENV PATH=/opt/kshadow/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYSPARK_PYTHON=/opt/kshadow/bin/python
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["kshadow"]
CMD ["spark", "--help"]

FROM ${BASE}
ARG VERSION=
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="kshadow" \
      org.opencontainers.image.description="Observability agent for Apache Kafka consumer groups" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
# Nobody builds anything here: the base's own pip goes, with the copy of it that it could be had from again.
RUN python -m pip uninstall --yes --root-user-action ignore pip \
 && rm -rf /usr/local/lib/python3*/ensurepip \
 && mkdir -p /var/lib/kshadow \
 && chown 65532:65532 /var/lib/kshadow
COPY --from=build /opt/kshadow /opt/kshadow
ENV PATH=/opt/kshadow/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 KSHADOW_LISTEN=:9308
USER 65532:65532
WORKDIR /var/lib/kshadow
EXPOSE 9308
# Of an agent that listens where it does by default. Kubernetes has probes of its own and looks at none of this.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 9308, timeout=2); c.request('GET', '/healthz'); exit(c.getresponse().status != 200)"]
ENTRYPOINT ["kshadow"]
CMD ["run"]
