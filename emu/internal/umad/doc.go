// Package umad is /dev/infiniband/umadN: management datagrams of programs. Ports answer those for their own subnet
// management agent and their counters; there is no subnet manager, and nothing is behind a port.
package umad
