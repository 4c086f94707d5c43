# A CPU image: docker build -t gauntlet . && docker run --rm -v "$PWD:/work" gauntlet run --model streets/enet --suite quick
FROM python:3.11-slim
WORKDIR /opt/gauntlet
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt ".[postgres,cluster,parquet]"
WORKDIR /work
ENTRYPOINT ["gauntlet"]
CMD ["--help"]
