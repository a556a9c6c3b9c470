# dssl as a container: a user without rights, a read-only root file system, /cache and /work as volumes. See docs/machines.md.
FROM python:3.12-slim AS build
# Index of PyTorch wheels, such as that of the CPU build; by default pip's own, whose wheel contains CUDA.
ARG TORCH_INDEX_URL=""
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/dssl \
    && if [ -n "$TORCH_INDEX_URL" ]; then \
         /opt/dssl/bin/pip install --no-cache-dir -c constraints.txt --index-url "$TORCH_INDEX_URL" torch; fi \
    && /opt/dssl/bin/pip install --no-cache-dir -c constraints.txt '.[all]'

FROM python:3.12-slim
COPY --from=build /opt/dssl /opt/dssl
RUN useradd --uid 1000 --create-home dssl && install -d -o dssl /cache /work
ENV PATH=/opt/dssl/bin:$PATH DSSL_CACHE=/cache/dssl NUMBA_CACHE_DIR=/cache/numba MPLCONFIGDIR=/cache/matplotlib
USER dssl
WORKDIR /work
VOLUME ["/cache", "/work"]
ENTRYPOINT ["dssl"]
