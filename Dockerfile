# One image for the operator, the API and the migration:
#
#   docker build --tag anabranch --build-arg VERSION=0.1.0 --build-arg REVISION=$(git rev-parse HEAD) .
#   docker run --read-only --tmpfs /tmp anabranch api --help
#
# `make image` does it with the right arguments, without docker too, and saves the image.
#
# The base is any Debian with Python 3.11 or later, and venv. The image is not built on it but assembled from it: what
# runs, what that needs, and nothing else (image/rootfs.py). So there is no pip, no package manager and no compiler in it.
ARG BASE=python:3.11-slim-bookworm
# embeddings: with what searches by meaning need.
ARG VARIANT=runtime

FROM ${BASE} AS build
# For an index or a proxy of one's own; they do not reach the image.
ARG PIP_CERT
ARG PIP_INDEX_URL
# The time of every file, in seconds since 1970: the same input gives the same image.
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Git reads the repositories that findings cite, by ssh where an address says so.
RUN command -v git && command -v ssh && test -e /etc/ssl/certs/ca-certificates.crt || \
    { apt-get update && apt-get install --yes --no-install-recommends ca-certificates git openssh-client; }

WORKDIR /src
COPY requirements-build.lock requirements-runtime.lock requirements-embeddings.lock ./
ARG VARIANT
RUN python3 -m venv /build && \
    /build/bin/pip install --require-hashes --requirement requirements-build.lock && \
    python3 -m venv --without-pip /opt/anabranch && \
    /build/bin/pip --python /opt/anabranch/bin/python install --no-compile --only-binary=:all: \
        --require-hashes --requirement requirements-${VARIANT}.lock

COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN /build/bin/pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /wheels . && \
    /build/bin/pip --python /opt/anabranch/bin/python install --no-compile --no-index --no-deps /wheels/*.whl

COPY image image
RUN /opt/anabranch/bin/python image/rootfs.py /rootfs

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="anabranch" \
      org.opencontainers.image.description="Branching, reviewed memory for fleets of AI agents: operator, API and migration" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /rootfs /
# Its file system may be read-only: only /tmp is ever written to, and bytecode is there already.
ENV PATH=/opt/anabranch/bin:/usr/local/bin:/usr/bin:/bin HOME=/home/anabranch LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /home/anabranch
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
ENTRYPOINT ["anabranch"]
CMD ["--help"]
