// Package systemd shows deploy/rdmaperf-agent.service to systemd's own verifier. Nothing here boots a systemd.
package systemd
