//go:build linux && !race

package notify

// largest is how many variables of 120 KiB a test's environment has. The kernel takes 2 MiB.
const largest = 15
