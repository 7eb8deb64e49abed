# The agent without Spark and without Java.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY agent ./agent
COPY analyzers ./analyzers
COPY spark_jobs ./spark_jobs
RUN python -m venv /opt/kshadow \
 && /opt/kshadow/bin/pip install --no-cache-dir --constraint constraints.txt . \
 && /opt/kshadow/bin/pip uninstall --yes pip

FROM python:3.12-slim
LABEL org.opencontainers.image.title="kshadow" \
      org.opencontainers.image.description="Observability agent for Apache Kafka consumer groups" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/kshadow /opt/kshadow
ENV PATH=/opt/kshadow/bin:$PATH PYTHONUNBUFFERED=1 KSHADOW_LISTEN=:9308
USER 65532:65532
EXPOSE 9308
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 9308, timeout=2); c.request('GET', '/healthz'); exit(c.getresponse().status != 200)"]
ENTRYPOINT ["kshadow"]
CMD ["run"]
