// Package emubench compares our rdmaperf with the stock perftest on one emulated device, in alternating rounds. Both
// ends of a run are the same program. The device does the same work for both programs; its speed says nothing about a
// NIC. Each end has a processor of its own if there are two.
package emubench
