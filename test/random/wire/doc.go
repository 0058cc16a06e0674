// Package wire holds a test that records what the programs of package random write to the emulated device on both data
// paths, and compares the recordings byte by byte.
package wire
