# Wicket with everything that replicas need. Build: docker build -t wicket . Run: see compose.yaml and docs/deployment.md.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir build && python -m build --wheel --outdir /wheels

FROM python:3.13-slim
# Servers that are started with npx or uvx need their own tools: build an image on this one that has them.
RUN useradd --create-home --uid 10001 wicket
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[auth,js,otel,postgres,python,redis,registry]"
USER wicket
WORKDIR /home/wicket
EXPOSE 8377
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8377/healthz')"]
ENTRYPOINT ["wicket"]
CMD ["serve", "--http", "0.0.0.0:8377", "--config", "/etc/wicket/wicket.toml"]
