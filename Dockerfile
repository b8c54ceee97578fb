# One image for every process of callflow: which one it is, the command says.
FROM python:3.11-slim AS build
# EXTRAS=flower has Flower in place of the web process; neither is of use to a worker.
ARG EXTRAS=web
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/callflow
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels . \
    && wheel="$(echo /wheels/callflow-*.whl)" \
    && /opt/callflow/bin/pip install --constraint constraints.txt \
        "callflow${EXTRAS:+[$EXTRAS]} @ file://$wheel"

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home callflow
COPY --from=build /opt/callflow /opt/callflow
ENV PATH=/opt/callflow/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER callflow
WORKDIR /tmp
# No shell in between: the stop signal has to reach Celery, which lets running turns finish.
CMD ["celery", "-A", "callflow", "worker", "-n", "turns@%h", "-Q", "takeover,turns", "-E"]
