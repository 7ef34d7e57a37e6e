# One image for web, worker and beat; compose.yaml tells them apart. It runs the same script/ steps
# as an installation without containers.
#
#   docker build --build-arg BENCHMARK=1 .    with torch, so that its worker can trace and measure
FROM python:3.11-slim-bookworm

RUN useradd --create-home epochcast && install --directory --owner epochcast /app /data
USER epochcast
WORKDIR /app

# Packages first: they change less often than the code, and this layer is the slow one.
COPY --chown=epochcast requirements.txt requirements-benchmark.txt ./
COPY --chown=epochcast script ./script
ARG BENCHMARK
RUN script/setup --packages ${BENCHMARK:+--benchmark}

COPY --chown=epochcast . .

ENV EPOCHCAST_VAR_DIR=/data LOG_FORMAT=json
VOLUME /data
EXPOSE 8000
CMD ["script/server", "--host", "0.0.0.0", "--port", "8000"]
