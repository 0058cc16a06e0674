// Package emubench compares our perf with the stock perftest on one emulated
// device, in alternating rounds, both ends of a run from the same side. What the
// device does is the same for both; its speed says nothing about a NIC's. Each end of a run has a
// processor of its own where there are two.
package emubench
