// Package systemd shows deploy/perf-agent.service to systemd's own verifier. Nothing here boots a systemd.
package systemd
