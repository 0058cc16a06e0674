// Package netdev gives a network namespace the interfaces of emulated ports, with the names, addresses and numbers that
// the GID tables have.
package netdev
