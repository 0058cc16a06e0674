//go:build !amd64 && !arm64

package tsc

const counterName = ""

func counter() int64 { return 0 }

func usable() (bool, string) { return false, "this architecture has no counter that is known here" }
