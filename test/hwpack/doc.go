// Hwpack is the runner of the pack for hosts with an mlx5 adapter, which make hw-pack makes. It runs rdmaperf selftest
// and the tests of the emulated adapters on the host's device, with both data paths, and writes one JSON object.
//
// It needs no Go, no checkout and, unless frames are asked for, no root. See docs/hardware.md.
package main
