# One image for every process of callflow: which one it is, the command says.
FROM python:3.11-slim AS build
# EXTRAS=flower has Flower in place of everything else. Without semantic and model, procedures are
# found by their words and replies come from their script alone.
ARG EXTRAS=web,semantic,model,oidc,postgres,traces
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/callflow
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels . \
    && wheel="$(echo /wheels/callflow-*.whl)" \
    && /opt/callflow/bin/pip install --constraint constraints.txt \
        "callflow${EXTRAS:+[$EXTRAS]} @ file://$wheel"
# What finds procedures by meaning is built here once, and not by every container that starts.
RUN mkdir /opt/callflow/index && case ",$EXTRAS," in *,semantic,*) \
    CALLFLOW_INDEX_DIR=/opt/callflow/index /opt/callflow/bin/callflow sop index ;; esac

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home callflow \
    && install -d -m 0700 -o callflow /var/lib/callflow
COPY --from=build /opt/callflow /opt/callflow
# An operator's procedures need an index of their own, which the first worker builds.
RUN chown -R callflow /opt/callflow/index
ENV PATH=/opt/callflow/bin:$PATH \
    CALLFLOW_INDEX_DIR=/opt/callflow/index \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER callflow
WORKDIR /tmp
# A worker's health check, where its orchestrator asks for one: callflow doctor --node turns@$HOSTNAME
# No shell in between: the stop signal has to reach Celery, which lets running turns finish.
CMD ["celery", "-A", "callflow", "worker", "-n", "turns@%h", "-Q", "takeover,urgent,turns,tests", "-E"]
