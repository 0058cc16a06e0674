//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "hwpack: adapters are driven on Linux only")
	os.Exit(1)
}
