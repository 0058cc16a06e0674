// Package emutree tests that this project's reader of sysfs and the emulator's /sys, written independently of each
// other, agree on the formats.
package emutree
