//go:build linux && race

package notify

// largest is how many variables of 120 KiB a test's environment has: the race detector maps memory for what is long,
// which the launcher cannot do.
const largest = 0
