// Package place chooses the CPUs that a test runs on: those of the device's NUMA node.
package place
