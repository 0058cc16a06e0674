// Package datagram knows which queue pair an address leads to, which address a datagram comes from, and which datagrams
// are in memory. It has no lock: that of the socket guards it.
package datagram
